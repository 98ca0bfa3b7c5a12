"""Blocking work aside, in a thread that no end of the process waits for.

The threads of asyncio's own pool are joined at exit, so an import that takes seconds would hold
up a process that was told to stop. Only for work that may be given up at any moment.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

Result = TypeVar("Result")


async def aside(work: Callable[[], Result]) -> Result:
    """Run `work` in a thread of its own and give what it gives, or raise what it raises."""
    loop = asyncio.get_running_loop()
    came: asyncio.Future[Result] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except BaseException as raised:  # noqa: BLE001 - whoever waits shall see it
            _tell(loop, came, partial(came.set_exception, raised))
        else:
            _tell(loop, came, partial(came.set_result, result))

    threading.Thread(target=run, name="aside", daemon=True).start()
    return await came


def _tell(
    loop: asyncio.AbstractEventLoop, came: asyncio.Future[Any], settle: Callable[[], None]
) -> None:
    with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
        loop.call_soon_threadsafe(lambda: None if came.done() else settle())
