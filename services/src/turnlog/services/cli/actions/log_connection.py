"""The connection of a command that reads the log itself, and not through a gateway."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from turnlog.events.jetstream.nats_connection import (
    NatsConnection,
    build_service_inbox,
    open_connection,
)
from turnlog.services.cli.client.service_location import READY_FILE, RunningService, locate_data
from turnlog.services.cli.options import LogTarget
from turnlog.services.platform.nats_server import NatsConfig, NatsServer


@asynccontextmanager
async def open_log_connection(
    target: LogTarget, nats: str | None, name: str
) -> AsyncGenerator[NatsConnection]:
    """Connect to the NATS that is named, or to that of a data directory."""
    async with (
        _open_nats(target, nats) as url,
        open_connection(url, name=name, inbox_prefix=build_service_inbox(url)) as connection,
    ):
        yield connection


@asynccontextmanager
async def _open_nats(target: LogTarget, nats: str | None) -> AsyncGenerator[str]:
    """Yield the NATS address that is named, a running service's, or a new server's."""
    if nats is not None:
        yield nats
    elif isinstance(locate_data(None, target.data_dir), RunningService):
        yield _read_nats_address(target.data_dir)
    else:
        async with await NatsServer.start(NatsConfig(data_dir=target.data_dir)) as server:
            yield server.url


def _read_nats_address(data_dir: Path) -> str:
    return str(json.loads((data_dir / READY_FILE).read_bytes())["nats"])
