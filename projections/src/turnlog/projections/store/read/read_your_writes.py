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

from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.row_filters import match_session
from turnlog.projections.store.schema.read_model_tables import SESSIONS

_POLL_SECONDS: Final = 0.05
"""Seconds between polls while no signal arrives."""


class ProjectionSignal:
    """Notifies readers in this process that there are new rows."""

    def __init__(self) -> None:
        self._signal = asyncio.Event()

    def notify_readers(self) -> None:
        """Wake all readers that wait for the current signal."""
        previous_signal, self._signal = self._signal, asyncio.Event()
        previous_signal.set()

    def get_next_signal(self) -> asyncio.Event:
        """Return the event that the next notification sets.

        A reader that gets it before it reads the rows misses no notification.
        """
        return self._signal


async def wait_until_folded(
    store: ReadModelStore,
    signal: ProjectionSignal,
    tenant: str,
    session: str,
    sequence: int,
    *,
    within: float,
) -> bool:
    """Wait until the rows contain a session's event; False if not `within` so many seconds."""
    return await wait_for_sequence(
        signal, partial(read_folded_sequence, store, tenant, session), sequence, within=within
    )


async def wait_for_sequence(
    signal: ProjectionSignal,
    read_sequence: Callable[[], Awaitable[int]],
    sequence: int,
    *,
    within: float,
) -> bool:
    """Wait until `read_sequence` returns this sequence or a later one."""
    clock = asyncio.get_running_loop()
    until = clock.time() + within
    while True:
        next_signal = signal.get_next_signal()
        if await read_sequence() >= sequence:
            return True
        left = until - clock.time()
        if left <= 0:
            return False
        # `asyncio.wait_for` of Python 3.11 forgets a cancellation that arrives with the signal.
        with suppress(TimeoutError):
            async with asyncio.timeout(min(left, _POLL_SECONDS)):
                await next_signal.wait()


async def read_folded_sequence(store: ReadModelStore, tenant: str, session: str) -> int:
    """Return the last sequence of a session that the rows contain; 0 if they contain none."""
    found = select(SESSIONS.c.last_sequence).where(match_session(SESSIONS, tenant, session))
    async with store.open_reader() as connection:
        return await connection.scalar(found) or 0
