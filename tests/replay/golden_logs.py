"""Golden logs: what each release recorded, replayed by all later releases.

`python -m tests.replay.golden_logs` writes the log of this version. Run it only for a version that
is not released yet, or after ASSEMBLER was raised on purpose, never to make a test pass.
"""

from __future__ import annotations

import asyncio
import shutil
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.replay.session_scripts import play_sessions
from tests.services.gateway.gateway_service import MemoryBackend, start_service
from turnlog.projections.audit.export.bundle_format import README_FILE, VERIFIER_FILE
from turnlog.services.cli.actions.session_export import export_bundle
from turnlog.services.cli.client.service_reader import ServiceReader

GOLDEN = Path(__file__).with_name("golden")


def list_releases() -> list[Path]:
    """Return the folder of the golden log of every release."""
    return sorted(folder for folder in GOLDEN.iterdir() if folder.is_dir())


def get_release_folder() -> Path:
    """Return the folder of the golden log of this version."""
    return GOLDEN / metadata.version("turnlog-services")


async def record_golden_log(folder: Path) -> None:
    """Play every session and export the log as a bundle."""
    with TemporaryDirectory() as beside:
        async with start_service(MemoryBackend(), "golden", Path(beside)) as stand:
            sessions = await play_sessions(stand)
            await export_bundle(ServiceReader(stand.http), sessions, folder, None)


async def main() -> None:
    folder = get_release_folder()
    shutil.rmtree(folder, ignore_errors=True)
    await record_golden_log(folder)
    for name in (README_FILE, VERIFIER_FILE):
        (folder / name).unlink()


if __name__ == "__main__":
    asyncio.run(main())
