"""Watches the connection to NATS: its outages are logged, and one that cannot heal is reported.

The connection retries for ever, so a NATS that is away is waited for. It cannot heal by itself when
servers answer and none of them takes it: a password was replaced, or the code that reconnects has
ended. A process in that state would look alive and do nothing, so it should be started anew.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import structlog

from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.nats_connection import NatsConnection, find_answering_server

HEAL_SECONDS: Final = 30.0
"""Seconds without a connection, while a server answers, after which it counts as unable to heal."""

LOOK_SECONDS: Final = 0.5
"""Seconds between two looks at the connection."""

_log = structlog.get_logger("turnlog.process")


@dataclass(frozen=True, slots=True)
class ConnectionWatch:
    """Watches one connection of a process."""

    connection: NatsConnection
    seconds: float = HEAL_SECONDS
    """Seconds that it has to heal."""

    async def watch_connection(self) -> None:
        """Watch until the connection cannot heal, and raise `Unavailable` then."""
        server, seen = self.connection.server, self.connection.reconnect_count
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self.connection.is_connected and self.connection.reconnect_count == seen:
                continue
            _log.warning("nats-disconnected", server=server)
            await self._wait_until_healed()
            server, seen = self.connection.server, self.connection.reconnect_count
            _log.info("nats-connected", server=server)

    async def _wait_until_healed(self) -> None:
        # Looks are counted and not seconds, so that a process that was suspended is not at its end.
        answered_looks = 0
        while not self.connection.is_connected:
            server = await find_answering_server(self.connection)
            answered_looks = answered_looks + 1 if server else 0
            if answered_looks * LOOK_SECONDS > self.seconds and not self.connection.is_connected:
                detail = f"no connection for {self.seconds:g} s, though {server} answers"
                raise Unavailable("nats", detail)
            await asyncio.sleep(LOOK_SECONDS)
