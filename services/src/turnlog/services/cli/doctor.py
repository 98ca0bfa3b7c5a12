"""The doctor checks the machine: directory, disk, port, clock, NATS, read models, checkpoints.

Each check returns a `CheckFinding` and changes nothing. JetStream is checked by starting a
nats-server on an empty temporary directory.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import sqlite3
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from rich.table import Table
from rich.text import Text

from turnlog.events.errors import TurnlogError
from turnlog.projections.store.schema.schema_migration import SCHEMA_REVISION
from turnlog.services.audit.checkpoint_signatures import KEY_FILE
from turnlog.services.cli.client.service_location import is_answering, read_ready_address
from turnlog.services.cli.console import OutputFormat, print_json
from turnlog.services.cli.console import create_output_console as answer_console
from turnlog.services.cli.environment import read_settings
from turnlog.services.cli.options import ServiceTarget
from turnlog.services.cli.views.theme import BAD, GOOD, MUTED, WARNING
from turnlog.services.platform.durability import check_durability
from turnlog.services.platform.nats_server import NatsConfig, NatsServer, find_server_binary
from turnlog.services.platform.process_settings import AllInOneSettings

CheckVerdict = Literal["good", "wary", "bad"]


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """The result of one check."""

    what: str
    verdict: CheckVerdict
    said: str
    fix: str = ""
    """What to do about a warning or a failure."""


def report_good(what: str, detail: str) -> CheckFinding:
    """Return the finding of a check that passed."""
    return CheckFinding(what, "good", detail)


def report_warning(what: str, detail: str, fix: str) -> CheckFinding:
    """Return the finding of something that works but may stop working."""
    return CheckFinding(what, "wary", detail, fix)


def report_failure(what: str, detail: str, fix: str) -> CheckFinding:
    """Return the finding of something that prevents a service from starting."""
    return CheckFinding(what, "bad", detail, fix)


_LOW_DISK_BYTES: Final = 1 << 30
"""Free bytes below which a disk counts as nearly full."""

_CLOCK_TOLERANCE: Final = 5.0
"""Seconds that a file may lie in the future, because file systems have their own clocks."""

_GIGABYTE: Final = 1e9


def check_data_dir(data_dir: Path) -> CheckFinding:
    """Check that files can be created in the data directory, or where it would be created."""
    place = find_existing_directory(data_dir)
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        fix = "give another one with --data-dir, or change its owner"
        return report_failure("data directory", f"{place}: {error.strerror}", fix)
    detail = str(data_dir) if data_dir.exists() else f"{data_dir}, to be made"
    return report_good("data directory", detail)


def find_existing_directory(path: Path) -> Path:
    """Return the directory itself, or its nearest existing parent."""
    absolute = path.absolute()
    return next(place for place in (absolute, *absolute.parents) if place.exists())


def check_disk(data_dir: Path) -> CheckFinding:
    """Check the free space."""
    free = shutil.disk_usage(find_existing_directory(data_dir)).free
    detail = f"{free / _GIGABYTE:,.1f} GB free"
    if free < _LOW_DISK_BYTES:
        return report_warning(
            "disk", detail, "make room: the log takes no event that it cannot keep"
        )
    return report_good("disk", detail)


def check_http_port(address: str, running: str | None) -> CheckFinding:
    """Check that the HTTP port is free or used by the running service."""
    host, _, number = address.rpartition(":")
    if running is not None:
        return report_good("HTTP", f"{running} answers")
    with closing(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]"), int(number)))
        except OSError as error:
            fix = "stop the process that listens there, or start with --http 127.0.0.1:0"
            return report_failure("HTTP", f"{address}: {error.strerror}", fix)
    return report_good("HTTP", f"{address} is free")


def check_clock(data_dir: Path) -> CheckFinding:
    """Check that the clock is not behind the files in the data directory."""
    written = [path.stat().st_mtime for path in data_dir.glob("*") if path.is_file()]
    behind = max(written, default=0.0) - time.time()
    if behind > _CLOCK_TOLERANCE:
        detail = f"{behind:,.0f} s behind what stands in {data_dir}"
        return report_warning("clock", detail, "set it: events carry its time")
    return report_good("clock", time.strftime("%Y-%m-%d %H:%M:%S %Z"))


def check_model_library() -> CheckFinding:
    """Check that litellm is installed without importing it, which takes seconds."""
    if find_spec("litellm") is None:
        return report_failure("litellm", "not installed", "run `make install`")
    return report_good("litellm", metadata.version("litellm"))


_LOG_DIRECTORY = "jetstream"


def check_checkpoints(data_dir: Path) -> CheckFinding:
    """Check whether a checkpoint was ever signed here; where it is stored is not known."""
    key = data_dir / KEY_FILE
    if key.is_file():
        since = time.strftime("%Y-%m-%d", time.localtime(key.stat().st_mtime))
        return report_good("checkpoints", f"signed since {since}, by {key}")
    if not (data_dir / _LOG_DIRECTORY).is_dir():
        return report_good("checkpoints", "nothing to sign yet")
    fix = "`turnlog checkpoint FILE`, and keep it where nobody who writes to the log can write"
    return report_warning("checkpoints", "none was signed here, so a cut end would not show", fix)


async def check_nats_binary() -> CheckFinding:
    """Check that nats-server is installed, and its version."""
    try:
        path = find_server_binary()
        process = await asyncio.create_subprocess_exec(
            path, "--version", stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
    except (TurnlogError, OSError) as error:
        return report_failure("nats-server", str(error), "run `make install`")
    return report_good("nats-server", output.decode().strip().removeprefix("nats-server: "))


async def check_jetstream() -> tuple[CheckFinding, ...]:
    """Start a server on an empty directory and check its durability level."""
    with tempfile.TemporaryDirectory(prefix="turnlog-doctor-") as place:
        try:
            async with await NatsServer.start(NatsConfig(Path(place), monitor=True)) as server:
                level = await check_durability("fsync-acked", 1, server.monitor_url)
        except TurnlogError as error:
            return (
                report_failure(
                    "JetStream", str(error), "look at the server's log; run `make install`"
                ),
            )
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
        detail = f"schema {found}, this release knows {SCHEMA_REVISION}"
        return report_failure(
            "read models", detail, "run the later release, or `turnlog rebuild` elsewhere"
        )
    return report_good("read models", f"schema {found}")


def _read_schema_revision(file: Path) -> str | None:
    with (
        suppress(sqlite3.OperationalError),
        closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database,
    ):
        row = database.execute("SELECT version_num FROM alembic_version").fetchone()
        return None if row is None else str(row[0])
    return None


_MARKS: Final[dict[CheckVerdict, Text]] = {
    "good": Text("✓", GOOD),
    "wary": Text("!", WARNING),
    "bad": Text("✗", BAD),
}


def render_findings(findings: Iterable[CheckFinding]) -> Table:
    """Render findings one per line, with the fix below a warning or failure."""
    table = Table.grid(padding=(0, 2))
    for finding in findings:
        table.add_row(_MARKS[finding.verdict], Text(finding.what, "bold"), Text(finding.said))
        if finding.fix:
            table.add_row("", Text("do", MUTED), Text(finding.fix))
    return table


async def run_checks(target: ServiceTarget, environ: Mapping[str, str]) -> tuple[CheckFinding, ...]:
    """Run all checks; nothing is changed."""
    settings = read_settings(AllInOneSettings, environ)
    address = target.url or read_ready_address(target.data_dir)
    running = address if address and is_answering(address) else None
    return (
        await check_nats_binary(),
        *await check_jetstream(),
        check_data_dir(target.data_dir),
        check_disk(target.data_dir),
        check_http_port(settings.http, running),
        check_clock(target.data_dir),
        check_read_model_schema(target.data_dir),
        check_checkpoints(target.data_dir),
        check_model_library(),
    )


def print_findings(findings: Sequence[CheckFinding], output: OutputFormat) -> bool:
    """Print the findings; return whether a service can start."""
    if output == "json":
        print_json([asdict(finding) for finding in findings])
    else:
        answer_console().print(render_findings(findings))
    return all(finding.verdict != "bad" for finding in findings)
