// A82: threads, a child process and a file.
import java.nio.file.*;
import java.util.concurrent.*;

public class Main {
    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        int sum = 0;
        Callable<Integer> seven = () -> 7;
        for (Future<Integer> f : pool.invokeAll(java.util.Collections.nCopies(6, seven))) sum += f.get();
        pool.shutdown();
        Path p = Files.writeString(Files.createTempFile("j", ""), "file");
        Process child = new ProcessBuilder("cat", p.toString()).redirectErrorStream(true).start();
        System.out.println("java " + sum + " " + new String(child.getInputStream().readAllBytes()) + " " + child.waitFor());
    }
}
