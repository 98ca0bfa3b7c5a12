"""Read your own writes: wait until the rows contain what was just appended.

A projector in the same process sends a signal after every commit. For a projector in another
process the rows are polled instead; the result is the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final

from sqlalchemy import select

from turnlog.projections.store.engine import Store
from turnlog.projections.store.selecting import of_session
from turnlog.projections.store.tables import SESSIONS

_LOOK_EVERY: Final = 0.05
"""Seconds between polls while no signal arrives."""


class Bell:
    """Notifies readers in this process that there are new rows."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake all readers that wait for the current signal."""
        rung, self._rung = self._rung, asyncio.Event()
        rung.set()

    def listen(self) -> asyncio.Event:
        """Return the event that the next notification sets.

        A reader that gets it before it reads the rows misses no notification.
        """
        return self._rung


async def reached(
    store: Store, bell: Bell, tenant: str, session: str, sequence: int, *, within: float
) -> bool:
    """Wait until the rows contain a session's event; False if not `within` so many seconds."""
    return await come_to(bell, partial(folded, store, tenant, session), sequence, within=within)


async def come_to(
    bell: Bell, look: Callable[[], Awaitable[int]], sequence: int, *, within: float
) -> bool:
    """Wait until `read_sequence` returns this sequence or a later one."""
    clock = asyncio.get_running_loop()
    until = clock.time() + within
    while True:
        rung = bell.listen()
        if await look() >= sequence:
            return True
        left = until - clock.time()
        if left <= 0:
            return False
        with suppress(TimeoutError):
            await asyncio.wait_for(rung.wait(), min(left, _LOOK_EVERY))


async def folded(store: Store, tenant: str, session: str) -> int:
    """Return the last sequence of a session that the rows contain; 0 if they contain none."""
    found = select(SESSIONS.c.last_sequence).where(of_session(SESSIONS, tenant, session))
    async with store.reading() as connection:
        return await connection.scalar(found) or 0
