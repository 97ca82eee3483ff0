# A server and its client over TCP on 127.0.0.1 and ::1, by threads and by asyncio.
import asyncio, socket, threading


def echo(server):
    c, _ = server.accept()
    with c:
        c.sendall(c.recv(100).upper())


for family, host in (socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"), (socket.AF_INET, "localhost"):
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((host, 0))
        server.listen()
        t = threading.Thread(target=echo, args=(server,))
        t.start()
        with socket.create_connection(server.getsockname()[:2], timeout=60) as c:
            c.sendall(b"hello")
            print(host, c.recv(100).decode())
        t.join()


async def main():
    async def handle(r, w):
        w.write((await r.readline()).upper())
        await w.drain()
        w.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        r, w = await asyncio.open_connection(*server.sockets[0].getsockname())
        w.write(b"asyncio\n")
        print((await r.readline()).decode().strip())
        w.close()


asyncio.run(main())
