"""Whether the log is still the one that a process has folded.

States and texts are cached by stream position. A log restored from an older copy has other events
at those positions, so a process that kept its caches would mix two histories. After each reconnect
the process looks up the latest event that it relies on. If that event is gone the process ends,
because a new process starts without caches and accepts the log as it is.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Final

from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.nats_connection import NatsConnection, wait_backoff
from turnlog.services.caches.session_snapshots import has_event
from turnlog.services.platform.shutdown import Shutdown
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.idempotent_commands import create_rollback_error

LOG_CHECK_TIMEOUT: Final = 5.0
"""Seconds to wait for the log: after an election a leader may not know its own end yet."""


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
                raise create_rollback_error(
                    f"log of session {state.session}",
                    f"stream position {state.head.stream_sequence} holds another event",
                )
        except Unavailable:
            until = clock.time() + timeout
        failures += 1
        await wait_backoff(failures)
