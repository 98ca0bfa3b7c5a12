"""Whether the log is still the one that a process has folded.

States and texts are cached by stream position. A log restored from an older copy has other events
at those positions, so a process that kept its caches would mix two histories. After each reconnect
the process looks up the latest event that it relies on. If that event is gone the process ends,
because a new process starts without caches and accepts the log as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from turnlog.events.envelope import Head, Recorded
from turnlog.events.errors import Corrupt, Unavailable
from turnlog.events.log.ports import Log
from turnlog.events.nats.backoff import back_off
from turnlog.events.nats.connection import Connection
from turnlog.projections.session.state import SessionState
from turnlog.services.runtime.ending import Ending
from turnlog.services.runtime.tasks import stopped

if TYPE_CHECKING:
    from turnlog.services.runtime.sessions import Sessions

PATIENCE: Final = 5.0
"""Seconds to wait for the log: after an election a leader may not know its own end yet."""
_FIX: Final = (
    "stop everything and bring the later log back; if it is lost, run `turnlog rebuild` for the "
    "read models and start again"
)


async def holds(log: Log, tenant: str, head: Head) -> bool:
    """Return whether the log has exactly this event at its stream position."""
    try:
        (event,) = await log.at(tenant, [head.stream_sequence])
    except Corrupt:
        return False
    return event.head == head


async def last_reaching(log: Log, tenant: str, session: str, least: int) -> Recorded | None:
    """Return a session's last event; ask the leader if the replica lacks `min_sequence`."""
    last = await log.last(tenant, session)
    if least and (last is None or last.sequence < least):
        # A replica may lag behind; the leader never does.
        last = await log.last(tenant, session, leader=True)
    return last


def check_goes_on(state: SessionState, last: Recorded | None) -> None:
    """Raise `Corrupt` when the log ends before a known state or has another event there."""
    known = state.head
    if last is None or last.sequence < known.sequence:
        there = last.sequence if last else 0
        raise _another(state, f"it ends at {there} and was at {known.sequence}")
    if last.sequence == known.sequence and last.head != known:
        raise _another(state, f"another event stands at {known.sequence}")


@asynccontextmanager
async def proving(
    connection: Connection, sessions: Sessions, ending: Ending
) -> AsyncGenerator[None]:
    """Check the log after each reconnect while the body runs; another log ends the process."""
    task = asyncio.create_task(_prove_for_ever(connection, sessions))
    ending.watched(task, "log")
    try:
        yield
    finally:
        await stopped(task)


async def _prove_for_ever(connection: Connection, sessions: Sessions) -> None:
    again = asyncio.Event()
    with connection.each_reconnect(again.set):
        while True:
            await again.wait()
            again.clear()
            await prove(sessions, patience=PATIENCE)


async def prove(sessions: Sessions, *, patience: float) -> None:
    """Raise `Corrupt` unless the log still has the latest event of the cached states."""
    clock = asyncio.get_running_loop()
    until = clock.time() + patience
    failures = 0
    while (state := sessions.held.latest) is not None:
        try:
            if await holds(sessions.log, state.tenant, state.head):
                return
            if clock.time() >= until:
                raise _another(state, f"place {state.head.stream_sequence} holds another event")
        except Unavailable:
            until = clock.time() + patience
        failures += 1
        await back_off(failures)


def _another(state: SessionState, detail: str) -> Corrupt:
    return Corrupt(f"log of session {state.session}", f"rolled back or replaced: {detail}; {_FIX}")


def follows(recorded: Recorded, state: SessionState) -> bool:
    """Return whether an event is the one that directly follows a state."""
    head = state.head
    return recorded.sequence == head.sequence + 1 and recorded.envelope.prevhash == head.hash
