from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

from turnlog.events.errors import TurnlogError
from turnlog.projections.store.schema import REVISION
from turnlog.services.cli.doctor.finding import Finding, bad, good
from turnlog.services.runtime.durability import durability_of
from turnlog.services.runtime.nats_config import NatsConfig
from turnlog.services.runtime.nats_server import NatsServer, find_binary


async def binary() -> Finding:
    """Check that nats-server is installed, and its version."""
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
    """Start a server on an empty directory and check its durability level."""
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


def schema(data_dir: Path) -> Finding:
    """Compare the schema of the read models with the one this release writes."""
    file = data_dir / "read-models.db"
    found = _revision(file) if file.exists() else None
    if found is None:
        return good("read models", f"none yet; this release makes schema {REVISION}")
    if found > REVISION:
        said = f"schema {found}, this release knows {REVISION}"
        return bad("read models", said, "run the later release, or `turnlog rebuild` elsewhere")
    return good("read models", f"schema {found}")


def _revision(file: Path) -> str | None:
    with (
        suppress(sqlite3.OperationalError),
        closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database,
    ):
        row = database.execute("SELECT version_num FROM alembic_version").fetchone()
        return None if row is None else str(row[0])
    return None
