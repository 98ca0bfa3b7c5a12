"""Golden logs: what each version recorded, replayed by all later versions.

`python -m tests.replay.golden_logs` writes the log of this version. Run it only for a version that
is not released yet, or after ASSEMBLER was raised on purpose, never to make a test pass.

`python -m tests.replay.golden_logs keep NAME` writes logs that stay as they are: the same sessions,
and the demo of every shipped blueprint. Run it before the shipped blueprints or the assembling of
prompts change.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

from tests.e2e.demo_process import DEMO_TIMEOUT, OFFLINE, run_demo
from tests.replay.content_scripts import play_contents
from tests.replay.session_scripts import play_sessions
from tests.services.gateway.gateway_service import MemoryBackend, start_service
from tests.support.processes.forked_program import get_forked_program
from tests.support.processes.service_connection import connect_service
from turnlog.projections.audit.export.bundle_format import README_FILE, VERIFIER_FILE
from turnlog.services.cli.actions.session_export import export_bundle
from turnlog.services.cli.demo.demo_runner import DemoName

GOLDEN = Path(__file__).with_name("golden")


def list_golden_logs() -> list[Path]:
    """Return the folder of every golden log: those of versions, and those that were kept."""
    return sorted(folder for folder in GOLDEN.iterdir() if folder.is_dir())


def get_version_folder() -> Path:
    """Return the folder of the golden log of this version."""
    return GOLDEN / metadata.version("turnlog-services")


async def record_sessions(folder: Path) -> None:
    """Play every session and export the log as a bundle."""
    with TemporaryDirectory() as beside:
        async with start_service(MemoryBackend(), "golden", Path(beside)) as stand:
            sessions = (*await play_sessions(stand), *await play_contents(stand))
            await export_bundle(connect_service(stand.http), sessions, folder, None)
    _remove_copies(folder)


def record_demo(name: DemoName, folder: Path) -> None:
    """Play a demo as its users do and export its log as a bundle."""
    with TemporaryDirectory() as data:
        with run_demo(name, "--exit", "--data-dir", data) as process:
            screen, _ = process.communicate(timeout=DEMO_TIMEOUT)
        assert process.returncode == 0, screen
        listed = json.loads(_run_turnlog("sessions", "-o", "json", "--data-dir", data))["sessions"]
        ids = [each["session"] for each in listed]
        _run_turnlog("export", *ids, "--bundle", str(folder), "--data-dir", data)
    _remove_copies(folder)


def _run_turnlog(*words: str) -> str:
    command = [str(get_forked_program()), *words]
    return subprocess.run(command, env=OFFLINE, capture_output=True, text=True, check=True).stdout


def _remove_copies(folder: Path) -> None:
    """Remove what is the same in every bundle."""
    for name in (README_FILE, VERIFIER_FILE):
        (folder / name).unlink()


def record_this_version() -> None:
    """Write the log of this version again."""
    folder = get_version_folder()
    shutil.rmtree(folder, ignore_errors=True)
    asyncio.run(record_sessions(folder))


def keep_logs(name: str) -> None:
    """Write logs that no later run overwrites."""
    asyncio.run(record_sessions(GOLDEN / f"{name}-sessions"))
    for demo in get_args(DemoName):
        record_demo(demo, GOLDEN / f"{name}-demo-{demo}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            record_this_version()
        case ["keep", name]:
            keep_logs(name)
        case _:
            sys.exit(__doc__)
