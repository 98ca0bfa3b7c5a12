from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

from turnlog.events.errors import TurnlogError
from turnlog.projections.store.schema import SCHEMA_REVISION
from turnlog.services.cli.doctor.finding import CheckFinding, report_failure, report_good
from turnlog.services.runtime.durability import check_durability
from turnlog.services.runtime.nats_config import NatsConfig
from turnlog.services.runtime.nats_server import NatsServer, find_server_binary


async def check_nats_binary() -> CheckFinding:
    """Check that nats-server is installed, and its version."""
    try:
        path = find_server_binary()
        asked = await asyncio.create_subprocess_exec(
            path, "--version", stdout=asyncio.subprocess.PIPE
        )
        said, _ = await asked.communicate()
    except (TurnlogError, OSError) as error:
        return report_failure("nats-server", str(error), "run `make install`")
    return report_good("nats-server", said.decode().strip().removeprefix("nats-server: "))


async def check_jetstream() -> tuple[CheckFinding, ...]:
    """Start a server on an empty directory and check its durability level."""
    with tempfile.TemporaryDirectory(prefix="turnlog-doctor-") as place:
        try:
            async with await NatsServer.start(NatsConfig(Path(place), monitor=True)) as server:
                level = await check_durability("fsync-acked", 1, server.monitor_url)
        except TurnlogError as error:
            return (report_failure("JetStream", str(error), "look at the server's log; run `make install`"),)
    return (
        report_good("JetStream", "starts, takes work and ends"),
        report_good("acknowledgement", f"{level.level}: sync_interval always"),
    )


def check_read_model_schema(data_dir: Path) -> CheckFinding:
    """Compare the schema of the read models with the one this release writes."""
    file = data_dir / "read-models.db"
    found = _read_schema_revision(file) if file.exists() else None
    if found is None:
        return report_good("read models", f"none yet; this release makes schema {SCHEMA_REVISION}")
    if found > SCHEMA_REVISION:
        said = f"schema {found}, this release knows {SCHEMA_REVISION}"
        return report_failure("read models", said, "run the later release, or `turnlog rebuild` elsewhere")
    return report_good("read models", f"schema {found}")


def _read_schema_revision(file: Path) -> str | None:
    with (
        suppress(sqlite3.OperationalError),
        closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database,
    ):
        row = database.execute("SELECT version_num FROM alembic_version").fetchone()
        return None if row is None else str(row[0])
    return None
