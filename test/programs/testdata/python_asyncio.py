# asyncio: timers, threads, and subprocesses that talk through pipes.
import asyncio


async def child(n):
    p = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", f"read x; echo $((x + {n}))",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    out, _ = await p.communicate(b"100\n")
    return int(out), p.returncode


async def main():
    print(await asyncio.gather(*(child(n) for n in range(5))))
    print(await asyncio.to_thread(sum, range(10)))
    try:
        await asyncio.wait_for(asyncio.sleep(600), 0.05)
    except asyncio.TimeoutError:
        print("timed out")


asyncio.run(main())
