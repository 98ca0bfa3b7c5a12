"""Reliable cancellation of tasks, and blocking work in threads.

On Python 3.11 `asyncio.wait_for` swallows a cancellation that arrives together with its result, and
nats-py waits that way for every answer. So a task that was cancelled once may continue; it is
cancelled until it has ended.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

Given = TypeVar("Given")

_CANCEL_INTERVAL: Final = 0.005
"""Seconds to wait before a task is cancelled again."""


async def cancel_tasks(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until all have ended; ignore what they raise.

    A cancellation of the caller takes effect once all tasks have ended.
    """
    left = {task for task in tasks if not task.done()}
    interruption: asyncio.CancelledError | None = None
    while left:
        for task in left:
            task.cancel()
        try:
            await asyncio.wait(left, timeout=_CANCEL_INTERVAL)
        except asyncio.CancelledError as cancelled:
            interruption = cancelled
        left = {task for task in left if not task.done()}
    for task in tasks:
        if not task.cancelled():
            # Retrieve the exception, so that asyncio does not log it as never retrieved.
            task.exception()
    if interruption:
        raise interruption


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
    came: asyncio.Future[Result] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except BaseException as raised:  # noqa: BLE001 - whoever waits shall see it
            _settle_future(loop, came, partial(came.set_exception, raised))
        else:
            _settle_future(loop, came, partial(came.set_result, result))

    threading.Thread(target=run, name="aside", daemon=True).start()
    return await came


def _settle_future(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], settle: Callable[[], None]
) -> None:
    with suppress(RuntimeError):  # The event loop has ended, and no task waits for the result.
        loop.call_soon_threadsafe(lambda: None if future.done() else settle())
