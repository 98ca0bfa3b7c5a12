"""Rebuild the read models from the log.

The log is the one that the environment names, a running service's, or a data directory's.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from turnlog.events.errors import Unavailable
from turnlog.projections.store.engine import open_store
from turnlog.projections.store.reach import Bell
from turnlog.services.cli.console import answers
from turnlog.services.cli.environment import read
from turnlog.services.cli.logs import log_to
from turnlog.services.cli.options import Stored
from turnlog.services.cli.place import READY_FILE, Service, find
from turnlog.services.cli.verifying import progress
from turnlog.services.projector.folding import Folding
from turnlog.services.projector.library import LibraryProjector
from turnlog.services.projector.rebuild import rebuild
from turnlog.services.runtime.ending import Ending
from turnlog.services.runtime.nats_config import NatsConfig
from turnlog.services.runtime.nats_server import NatsServer
from turnlog.services.runtime.parts import connected
from turnlog.services.runtime.settings import ProjectorSettings
from turnlog.services.up.settings import UpSettings


async def rebuild_all(stored: Stored, environ: Mapping[str, str]) -> None:
    """Rebuild all read models and switch to them; readers keep the old rows until then."""
    log_to(sys.stderr, "console", least=logging.ERROR)
    async with (
        _settings(stored, environ) as settings,
        connected(settings, "rebuild", Ending().lost("nats")) as parts,
    ):
        store = open_store(settings.database_url.get_secret_value())
        try:
            folding = Folding(parts.log, store, parts.tracing, settings.tenant)
            position = await _shown(folding)
            library = LibraryProjector(parts.library, parts.blobs, store, settings.tenant, Bell())
            await library.rebuild()
        finally:
            await store.close()
    answers().print(f"rebuilt up to stream sequence {position:,}")


async def _shown(folding: Folding) -> int:
    with progress() as bar:
        task = bar.add_task("rebuilding", total=None)

        def advanced(position: int, goal: int) -> None:
            bar.update(task, completed=position, total=max(position, goal))

        switched = await rebuild(folding, advanced)
    if switched is None:
        raise Unavailable("rebuild", "another one took over; its rows are in force")
    return switched.position


@asynccontextmanager
async def _settings(
    stored: Stored, environ: Mapping[str, str]
) -> AsyncGenerator[ProjectorSettings]:
    """Yield the settings of the environment, of a running service, or of a data directory."""
    if "TURNLOG_NATS_URL" in environ:
        yield read(ProjectorSettings, environ)
        return
    given = {"data_dir": stored.data_dir, "tenant": stored.tenant}
    here = read(UpSettings, environ, given)
    if isinstance(find(None, stored.data_dir), Service):
        yield here.for_role(ProjectorSettings, _ready_nats(stored.data_dir), None)
        return
    async with await NatsServer.start(NatsConfig(stored.data_dir, monitor=True)) as server:
        yield here.for_role(ProjectorSettings, server.url, server.monitor_url)


def _ready_nats(data_dir: Path) -> str:
    return str(json.loads((data_dir / READY_FILE).read_bytes())["nats"])
