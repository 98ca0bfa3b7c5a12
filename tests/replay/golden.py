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

from tests.replay.playing import played
from tests.services.gateway.stand import InMemory, standing
from turnlog.projections.audit.export.bundle_format import README_FILE, VERIFIER_FILE
from turnlog.services.cli.actions.session_export import export_bundle
from turnlog.services.cli.client.service_reader import ServiceReader

GOLDEN = Path(__file__).with_name("golden")


def releases() -> list[Path]:
    """Return the folder of the golden log of every release."""
    return sorted(folder for folder in GOLDEN.iterdir() if folder.is_dir())


def this_release() -> Path:
    """Return the folder of the golden log of this version."""
    return GOLDEN / metadata.version("turnlog-services")


async def record(folder: Path) -> None:
    """Play every session and export the log as a bundle."""
    with TemporaryDirectory() as beside:
        async with standing(InMemory(), "golden", Path(beside)) as stand:
            sessions = await played(stand)
            await export_bundle(ServiceReader(stand.http), sessions, folder, None)


async def main() -> None:
    folder = this_release()
    shutil.rmtree(folder, ignore_errors=True)
    await record(folder)
    for name in (README_FILE, VERIFIER_FILE):
        (folder / name).unlink()


if __name__ == "__main__":
    asyncio.run(main())
