"""Whether the log is still the one a process knows, or was rolled back or replaced under it.

States and texts are held by their places in the log. A log brought back from an older copy has
other events at those places, so a process that went on with what it holds would mix two
histories. After each reconnect the latest event it goes by is looked up again; if it is gone the
process ends, since one started anew holds nothing and takes the log as it is.
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
"""Seconds a log is given: right after an election a leader may not know its own end."""
_FIX: Final = (
    "stop everything and bring the later log back; if it is lost, run `turnlog rebuild` for the "
    "read models and start again"
)


async def holds(log: Log, tenant: str, head: Head) -> bool:
    """Tell whether the log has this very event at this very place."""
    try:
        (event,) = await log.at(tenant, [head.stream_sequence])
    except Corrupt:
        return False
    return event.head == head


async def last_reaching(log: Log, tenant: str, session: str, least: int) -> Recorded | None:
    """Give a session's last event; who lacks a sequence it has come to is not taken at its word."""
    last = await log.last(tenant, session)
    if least and (last is None or last.sequence < least):
        # A follower may lag behind, the leader never does.
        last = await log.last(tenant, session, leader=True)
    return last


def check_goes_on(state: SessionState, last: Recorded | None) -> None:
    """Raise `Corrupt` when a session ends, by its leader's word, before or beside a known state."""
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
    """Look after each reconnect while the body runs; another log ends the process."""
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
    """Raise `Corrupt` unless the log holds the latest event that `sessions` go by."""
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
    """Tell whether an event is the very next one behind a state."""
    head = state.head
    return recorded.sequence == head.sequence + 1 and recorded.envelope.prevhash == head.hash
