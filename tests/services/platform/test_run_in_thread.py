"""Work in a thread returns its result, raises its error, and never delays process exit."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from turnlog.services.platform.concurrency import POOL_THREADS, run_in_thread, start_thread_pool

LEAVES = """
import asyncio, threading
from turnlog.services.platform.concurrency import run_in_thread

async def main():
    begun = threading.Event()

    def work():
        begun.set()
        threading.Event().wait()

    waiting = asyncio.create_task(run_in_thread(work))
    while not begun.is_set():
        await asyncio.sleep(0.01)
    waiting.cancel()

asyncio.run(main())
"""


async def test_thread_result_is_returned() -> None:
    assert await run_in_thread(threading.current_thread) is not threading.current_thread()


async def test_thread_exception_is_raised_in_the_awaiting_task() -> None:
    def work() -> None:
        raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there"):
        await run_in_thread(work)


def test_endless_thread_does_not_delay_process_exit() -> None:
    subprocess.run([sys.executable, "-c", LEAVES], check=True, timeout=60)


async def test_event_loop_goes_on_before_the_thread_has_begun() -> None:
    """A machine may be so busy that a new thread gets no processor for long."""
    begun: list[str] = []
    usual = sys.getswitchinterval()
    sys.setswitchinterval(60)  # A thread runs when this one waits for something, and not before
    try:
        work = asyncio.create_task(run_in_thread(lambda: begun.append("work")))
        await asyncio.sleep(0)
        before = [*begun]
    finally:
        sys.setswitchinterval(usual)
    await work
    assert (before, begun) == ([], ["work"])


async def test_work_of_a_loop_whose_pool_is_prepared_starts_no_thread() -> None:
    start_thread_pool()
    before = threading.active_count()
    all_busy = threading.Barrier(POOL_THREADS)
    await asyncio.gather(*(asyncio.to_thread(all_busy.wait) for _ in range(POOL_THREADS)))
    assert threading.active_count() == before
