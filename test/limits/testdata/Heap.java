// B84: threads, files, a child process, garbage and loopback, in a heap that
// fits the memory limit (argument: MiB).
import java.io.*;
import java.net.*;
import java.nio.file.*;
import java.util.concurrent.*;
import java.util.stream.*;

public class Heap {
    public static void main(String[] args) throws Exception {
        long limit = Long.parseLong(args[0]) << 20;
        long max = Runtime.getRuntime().maxMemory();
        System.out.println("heap " + (max > 0 && max < limit ? "fits" : max + " of " + limit));
        ExecutorService pool = Executors.newFixedThreadPool(8);
        int sum = 0;
        for (Future<Integer> f : pool.invokeAll(IntStream.range(0, 50).mapToObj(i -> (Callable<Integer>) () -> i).collect(Collectors.toList())))
            sum += f.get();
        pool.shutdown();
        System.out.println("threads " + sum);
        Path p = Files.createTempFile("x", "y");
        Files.writeString(p, "text");
        System.out.println("file " + Files.readString(p));
        Process child = new ProcessBuilder("echo", "child").start();
        System.out.println(new BufferedReader(new InputStreamReader(child.getInputStream())).readLine() + " " + child.waitFor());
        byte[][] kept = new byte[16][];
        for (int i = 0; i < 400; i++) kept[i % 16] = new byte[1 << 20];
        System.gc();
        System.out.println("collected");
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
            Socket c = new Socket("127.0.0.1", server.getLocalPort());
            Socket s = server.accept();
            s.getOutputStream().write('t');
            System.out.println("loopback " + (char) c.getInputStream().read());
        }
    }
}
