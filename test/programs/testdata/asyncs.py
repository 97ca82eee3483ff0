# A10, B83, codex#6352, codex#33793: asyncio with subprocesses, threads that
# call back, pipes and timeouts.
import asyncio
import threading


async def shell(n):
    p = await asyncio.create_subprocess_shell(
        f"cat; echo {n}", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    out, _ = await p.communicate(b"in ")
    return out.decode().strip()


async def main():
    print("subprocesses", await asyncio.gather(*(shell(n) for n in range(5))))
    loop = asyncio.get_running_loop()
    called = asyncio.Event()
    threading.Thread(target=lambda: loop.call_soon_threadsafe(called.set)).start()
    await asyncio.wait_for(called.wait(), 60)
    print("called from a thread")
    print("to_thread", await asyncio.to_thread(sum, range(10)))
    try:
        await asyncio.wait_for(asyncio.sleep(60), 0.05)
    except asyncio.TimeoutError:
        print("timeout")


asyncio.run(main())
