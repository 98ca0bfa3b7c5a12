"""Checks of nats-server, started for a moment on an empty directory, and of the read models."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from turnlog.events.errors import TurnlogError
from turnlog.projections.store.schema import REVISION
from turnlog.services.cli.doctor.finding import Finding, bad, good
from turnlog.services.runtime.durability import durability_of
from turnlog.services.runtime.nats_config import NatsConfig
from turnlog.services.runtime.nats_server import NatsServer, find_binary


async def binary() -> Finding:
    """Look for the server's program and ask its version."""
    try:
        path = find_binary()
        asked = await asyncio.create_subprocess_exec(
            path, "--version", stdout=asyncio.subprocess.PIPE
        )
        said, _ = await asked.communicate()
    except (TurnlogError, OSError) as error:
        return bad("nats-server", str(error), "run `make install`")
    return good("nats-server", said.decode().strip().removeprefix("nats-server: "))


async def jetstream() -> tuple[Finding, ...]:
    """Start a server on an empty directory and ask what it means by an acknowledgement."""
    with tempfile.TemporaryDirectory(prefix="turnlog-doctor-") as place:
        try:
            async with await NatsServer.start(NatsConfig(Path(place), monitor=True)) as server:
                level = await durability_of("fsync-acked", 1, server.monitor_url)
        except TurnlogError as error:
            return (bad("JetStream", str(error), "look at the server's log; run `make install`"),)
    return (
        good("JetStream", "starts, takes work and ends"),
        good("acknowledgement", f"{level.level}: sync_interval always"),
    )


def schema() -> Finding:
    """Tell which schema of read models this release writes."""
    return good("read models", f"schema {REVISION}")
