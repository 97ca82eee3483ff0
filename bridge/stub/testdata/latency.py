"""Calls a tool that does nothing N times and prints the times in ns."""
import asyncio
import sys
import time

import isolate_tools


async def tasks(count):
    return [await timed(isolate_tools.aio.nothing) for _ in range(count)]


async def timed(call):
    began = time.perf_counter_ns()
    await call()
    return time.perf_counter_ns() - began


def threads(count):
    times = []
    for _ in range(count):
        began = time.perf_counter_ns()
        isolate_tools.nothing()
        times.append(time.perf_counter_ns() - began)
    return times


measure = threads if sys.argv[1] == "direct" else lambda count: asyncio.run(tasks(count))
measure(100)
print(*measure(int(sys.argv[2])))
