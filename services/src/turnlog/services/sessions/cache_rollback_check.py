"""Whether the log is still the one that a process has folded.

States and texts are cached by stream position. A log restored from an older copy has other events
at those positions, so a process that kept its caches would mix two histories. After each reconnect
the process looks up the latest event that it relies on. If that event is gone the process ends,
because a new process starts without caches and accepts the log as it is.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from functools import partial

from turnlog.events.errors import LogRolledBack, Unavailable
from turnlog.events.jetstream.nats_connection import NatsConnection, wait_backoff
from turnlog.services.caches.session_snapshots import has_event
from turnlog.services.command_handling.idempotent_commands import create_rollback_error
from turnlog.services.integrity.rollback_confirmation import CONFIRM_SECONDS, confirm_rollback
from turnlog.services.platform.shutdown import Shutdown
from turnlog.services.sessions.command_handler import CommandHandler


def watch_log_identity(
    connection: NatsConnection, command_handler: CommandHandler, shutdown: Shutdown
) -> AbstractAsyncContextManager[None]:
    """Check the log after each reconnect while the body runs; another log ends the process."""
    return shutdown.run_part("log", _check_after_each_reconnect(connection, command_handler))


async def _check_after_each_reconnect(
    connection: NatsConnection, command_handler: CommandHandler
) -> None:
    again = asyncio.Event()
    with connection.watch_reconnects(again.set):
        while True:
            await again.wait()
            again.clear()
            await check_log_identity(command_handler)


async def check_log_identity(
    command_handler: CommandHandler, *, seconds: float = CONFIRM_SECONDS
) -> None:
    """Raise `LogRolledBack` unless the log still has the latest event of the cached states.

    The log must lack it for `seconds`. Waits for a log that is out of reach.
    """
    failures = 0
    while True:
        try:
            found = await confirm_rollback(partial(_find_lost_head, command_handler), seconds)
        except Unavailable:
            failures += 1
            await wait_backoff(failures)
            continue
        if found is not None:
            raise found
        return


async def _find_lost_head(command_handler: CommandHandler) -> LogRolledBack | None:
    state = command_handler.state_cache.latest_state
    if state is None or await has_event(command_handler.log, state.tenant, state.head):
        return None
    # Raises `Unavailable` where this leader is cut off, and only another one has the event.
    await command_handler.log.get_identity(state.tenant)
    return create_rollback_error(
        f"log of session {state.session}",
        f"stream position {state.head.stream_sequence} holds another event",
    )
