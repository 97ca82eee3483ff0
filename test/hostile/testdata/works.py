# A6 A10 A2: what must work inside: loopback of both versions, socket pairs, asyncio, a given file
import asyncio
import socket
import sys
import threading

port = int(sys.argv[1])
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    server = socket.socket(family)
    server.bind((host, port))
    server.listen()
    client = socket.create_connection((host, port))
    peer, _ = server.accept()
    client.sendall(b"hello")
    print(host, peer.recv(5).decode())
    udp = socket.socket(family, socket.SOCK_DGRAM)
    udp.bind((host, port))
    socket.socket(family, socket.SOCK_DGRAM).sendto(b"hello", (host, port))
    print(host, "UDP", udp.recv(5).decode())
a, b = socket.socketpair()
a.sendall(b"pair")
print("socketpair", b.recv(4).decode())


async def main():
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    threading.Thread(target=lambda: loop.call_soon_threadsafe(done.set_result, "called")).start()
    print("call_soon_threadsafe", await asyncio.wait_for(done, 20))
    process = await asyncio.create_subprocess_exec("/bin/echo", "child", stdout=asyncio.subprocess.PIPE)
    print("subprocess", (await process.communicate())[0].decode().strip())


asyncio.run(main())
