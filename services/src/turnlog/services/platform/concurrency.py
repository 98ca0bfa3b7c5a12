"""A program run until its last task has ended, and blocking work in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import Any, Final, TypeVar

from turnlog.events.async_tasks import cancel_tasks

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

    Thread(target=run, name="aside", daemon=True).start()
    return await future


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
