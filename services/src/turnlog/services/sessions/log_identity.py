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

from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Corrupt, Unavailable
from turnlog.events.jetstream.nats_connection import NatsConnection, wait_backoff
from turnlog.events.store.ports import EventLog
from turnlog.projections.session.state import SessionState
from turnlog.services.platform.shutdown import Shutdown

if TYPE_CHECKING:
    from turnlog.services.sessions.command_handler import CommandHandler


LOG_CHECK_TIMEOUT: Final = 5.0
"""Seconds to wait for the log: after an election a leader may not know its own end yet."""

_ROLLBACK_FIX: Final = (
    "stop everything and bring the later log back; if it is lost, run `turnlog rebuild` for the "
    "read models and start again"
)


async def has_event(log: EventLog, tenant: str, head: ChainHead) -> bool:
    """Return whether the log has exactly this event at its stream position."""
    try:
        (event,) = await log.read_events_at(tenant, [head.stream_sequence])
    except Corrupt:
        return False
    return event.head == head


async def read_last_event(
    log: EventLog, tenant: str, session: str, min_sequence: int
) -> RecordedEvent | None:
    """Return a session's last event; ask the leader if the replica lacks `min_sequence`."""
    last = await log.read_last_event(tenant, session)
    if min_sequence and (last is None or last.sequence < min_sequence):
        # A replica may lag behind; the leader never does.
        last = await log.read_last_event(tenant, session, leader=True)
    return last


def check_log_continues_state(state: SessionState, last: RecordedEvent | None) -> None:
    """Raise `Corrupt` when the log ends before a known state or has another event there."""
    known = state.head
    if last is None or last.sequence < known.sequence:
        there = last.sequence if last else 0
        raise _create_rollback_error(state, f"it ends at {there} and was at {known.sequence}")
    if last.sequence == known.sequence and last.head != known:
        raise _create_rollback_error(state, f"another event stands at {known.sequence}")


@asynccontextmanager
async def watch_log_identity(
    connection: NatsConnection, command_handler: CommandHandler, shutdown: Shutdown
) -> AsyncGenerator[None]:
    """Check the log after each reconnect while the body runs; another log ends the process."""
    task = asyncio.create_task(_check_after_each_reconnect(connection, command_handler))
    shutdown.watch_task(task, "log")
    try:
        yield
    finally:
        await cancel_tasks(task)


async def _check_after_each_reconnect(
    connection: NatsConnection, command_handler: CommandHandler
) -> None:
    again = asyncio.Event()
    with connection.watch_reconnects(again.set):
        while True:
            await again.wait()
            again.clear()
            await check_log_identity(command_handler, timeout=LOG_CHECK_TIMEOUT)


async def check_log_identity(command_handler: CommandHandler, *, timeout: float) -> None:
    """Raise `Corrupt` unless the log still has the latest event of the cached states."""
    clock = asyncio.get_running_loop()
    until = clock.time() + timeout
    failures = 0
    while (state := command_handler.state_cache.latest_state) is not None:
        try:
            if await has_event(command_handler.log, state.tenant, state.head):
                return
            if clock.time() >= until:
                raise _create_rollback_error(
                    state, f"place {state.head.stream_sequence} holds another event"
                )
        except Unavailable:
            until = clock.time() + timeout
        failures += 1
        await wait_backoff(failures)


def _create_rollback_error(state: SessionState, detail: str) -> Corrupt:
    return Corrupt(
        f"log of session {state.session}", f"rolled back or replaced: {detail}; {_ROLLBACK_FIX}"
    )


def is_next_event(recorded: RecordedEvent, state: SessionState) -> bool:
    """Return whether an event is the one that directly follows a state."""
    head = state.head
    return recorded.sequence == head.sequence + 1 and recorded.envelope.prevhash == head.hash
