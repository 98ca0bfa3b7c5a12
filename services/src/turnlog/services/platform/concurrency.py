"""A program run until its last task has ended, and work in threads and in child processes."""

from __future__ import annotations

import asyncio
import os
import signal
from _thread import start_new_thread
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Barrier
from typing import Any, Final, TypeVar

from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.errors import Unavailable

Given = TypeVar("Given")


async def run_to_completion(work: Awaitable[Given]) -> Given:
    """Run a whole program, then end every task that it leaves behind.

    asyncio cancels those tasks only once. A connection that is reconnecting may miss that, and the
    process would then never exit.
    """
    try:
        return await work
    finally:
        await cancel_tasks(*(asyncio.all_tasks() - {asyncio.current_task()}))


Result = TypeVar("Result")


async def run_in_thread(work: Callable[[], Result]) -> Result:
    """Run blocking work in a daemon thread and return or raise its result.

    asyncio joins the threads of its own pool at exit, so an import that takes seconds would delay a
    process that was asked to stop. Use this only for work that may be abandoned at any moment.

    `Thread.start` returns once the new thread has run, which on a busy machine held the event loop
    for 0.4 s. This goes on at once.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except BaseException as raised:  # noqa: BLE001 - whoever waits shall see it
            _settle_future(loop, future, partial(future.set_exception, raised))
        else:
            _settle_future(loop, future, partial(future.set_result, result))

    start_new_thread(run, ())
    return await future


POOL_THREADS: Final = 8
"""Threads of asyncio's own pool, which look up names of hosts and speak to child processes."""


def start_thread_pool() -> None:
    """Start every thread of the running loop's pool before anything is served.

    asyncio starts them one by one as work comes, each by `Thread.start`: see `run_in_thread`.
    """
    pool = ThreadPoolExecutor(POOL_THREADS, thread_name_prefix="asyncio")
    all_begun = Barrier(POOL_THREADS + 1)
    for _ in range(POOL_THREADS):
        pool.submit(all_begun.wait)  # A thread that waits is not idle, so each needs one more.
    all_begun.wait()
    asyncio.get_running_loop().set_default_executor(pool)


LONG_TEXT: Final = 8_192
"""Characters from which on work on a text runs in a thread, so that the event loop goes on.

No more than the least slice of a linear pattern, whose further forms then compile in threads only.
"""


async def run_text_work(work: Callable[[], Result], length: int) -> Result:
    """Run work on a text of `length` characters; see `run_in_thread` for what it may be."""
    return await run_in_thread(work) if length > LONG_TEXT else work()


def _settle_future(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], settle: Callable[[], None]
) -> None:
    with suppress(RuntimeError):  # The event loop has ended, and no task waits for the result.
        loop.call_soon_threadsafe(lambda: None if future.done() else settle())


_NICE_INCREMENT: Final = 5
"""How much the niceness of a child process is raised: it works beside a service."""


@contextmanager
def start_child_process(run: Callable[[Connection], None]) -> Generator[Connection]:
    """Yield a pipe to a new process that runs `run`; the process is killed when the body ends."""
    spawning = get_context("spawn")
    parent_connection, child_connection = spawning.Pipe()
    process = spawning.Process(target=_run_child, args=(run, child_connection), daemon=True)
    process.start()
    child_connection.close()  # Otherwise the pipe would stay open when the process has ended.
    try:
        yield parent_connection
    finally:
        process.kill()
        process.join()
        process.close()
        parent_connection.close()


def _run_child(run: Callable[[Connection], None], connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent process.
    os.nice(_NICE_INCREMENT)
    with suppress(EOFError, BrokenPipeError):  # The parent process has ended.
        run(connection)


async def send_to_child(connection: Connection, question: object) -> Any:  # noqa: ANN401 as is sent
    """Send a question to a child process and return its answer."""
    return await asyncio.to_thread(_send_and_receive, connection, question)


def _send_and_receive(connection: Connection, question: object) -> object:
    try:
        connection.send(question)
        return connection.recv()
    except (EOFError, OSError):
        raise Unavailable("child process", "it ended unexpectedly") from None
