"""Golden logs: what each release recorded of its blueprints, for all later ones to replay.

`python -m tests.replay.golden` writes that of this version anew. That is right where nothing of it
was released yet, or where ASSEMBLER was raised on purpose; it is no way to make a test pass.
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
    """Give the golden log of every release."""
    return sorted(folder for folder in GOLDEN.iterdir() if folder.is_dir())


def this_release() -> Path:
    """Give where the golden log of this version is."""
    return GOLDEN / metadata.version("turnlog-services")


async def record(folder: Path) -> None:
    """Play every session, and keep what was recorded as a bundle."""
    with TemporaryDirectory() as beside:
        async with standing(InMemory(), "golden", Path(beside)) as stand:
            sessions = await played(stand)
            await export_bundle(ServiceReader(stand.http), sessions, folder, None)


async def main() -> None:
    """Write the golden log of this version anew."""
    folder = this_release()
    shutil.rmtree(folder, ignore_errors=True)
    await record(folder)
    for name in (README_FILE, VERIFIER_FILE):
        (folder / name).unlink()


if __name__ == "__main__":
    asyncio.run(main())
