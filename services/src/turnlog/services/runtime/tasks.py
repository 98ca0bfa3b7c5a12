"""Ending tasks for certain.

On Python 3.11 `asyncio.wait_for` swallows a cancellation that meets its result, and nats-py waits
that way for every answer. A task that was cancelled once may therefore go on; it is cancelled
until it has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, TypeVar

Given = TypeVar("Given")

_AGAIN: Final = 0.005
"""Seconds given to a cancelled task before it is cancelled again."""


async def stopped(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until all of them have ended; what they raise is not raised here.

    Being cancelled meanwhile does not leave them running: it takes effect once they have ended.
    """
    left = {task for task in tasks if not task.done()}
    interruption: asyncio.CancelledError | None = None
    while left:
        for task in left:
            task.cancel()
        try:
            await asyncio.wait(left, timeout=_AGAIN)
        except asyncio.CancelledError as cancelled:
            interruption = cancelled
        left = {task for task in left if not task.done()}
    for task in tasks:
        if not task.cancelled():
            task.exception()  # Looked at, so that nobody warns of an exception nobody looked at.
    if interruption:
        raise interruption


async def to_the_end(work: Awaitable[Given]) -> Given:
    """Do some work as a whole program, and end every task that it leaves behind.

    asyncio itself cancels those once. A connection that is looking for its server may miss that,
    and a process that was told to end would then go on looking for ever.
    """
    try:
        return await work
    finally:
        await stopped(*(asyncio.all_tasks() - {asyncio.current_task()}))
