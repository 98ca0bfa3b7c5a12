"""Rebuild the read models from the log.

The log is the one that the environment names, a running service's, or a data directory's.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from turnlog.events.errors import Unavailable
from turnlog.projections.store.engine import open_store
from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.services.cli.actions.verification import create_progress_bar
from turnlog.services.cli.client.service_location import READY_FILE, RunningService, locate_data
from turnlog.services.cli.console import create_output_console
from turnlog.services.cli.environment import read_settings
from turnlog.services.cli.options import LogTarget
from turnlog.services.cli.process_log import configure_log
from turnlog.services.knowledge.embedders import CheckedEmbedder
from turnlog.services.platform.nats_server import NatsConfig, NatsServer
from turnlog.services.platform.process_settings import AllInOneSettings, ProjectorSettings
from turnlog.services.platform.shutdown import Shutdown
from turnlog.services.process_components import connect_components
from turnlog.services.projector.knowledge_projector import KnowledgeProjector
from turnlog.services.projector.log_fold import LogFolder, rebuild_rows
from turnlog.services.projector.segment_projector import SegmentProjector
from turnlog.services.seals.keyring_files import apply_directory_keyring


async def rebuild_read_models(target: LogTarget, environ: Mapping[str, str]) -> None:
    """Rebuild all read models and switch to them; readers keep the old rows until then."""
    configure_log(sys.stderr, "console", minimum_level="error")
    async with (
        _open_settings(target, environ) as settings,
        connect_components(settings, "rebuild", Shutdown()) as parts,
    ):
        store = open_store(settings.database_url.get_secret_value())
        try:
            folding = LogFolder(
                log=parts.log, store=store, tracing=parts.tracing, tenant=settings.tenant
            )
            position = await _rebuild_with_progress(folding)
            library = SegmentProjector(
                log=parts.library,
                blobs=parts.blobs,
                store=store,
                tenant=settings.tenant,
                signal=ProjectionSignal(),
            )
            await library.rebuild_segments()
            knowledge = KnowledgeProjector(
                log=parts.library,
                blobs=parts.blobs,
                store=store,
                tenant=settings.tenant,
                signal=ProjectionSignal(),
                embedder=CheckedEmbedder(setting=settings.embedder),
            )
            await knowledge.rebuild_index()
        finally:
            await store.close()
    create_output_console().print(f"rebuilt up to stream sequence {position:,}")


async def _rebuild_with_progress(folding: LogFolder) -> int:
    with create_progress_bar() as bar:
        task = bar.add_task("rebuilding", total=None)

        def show_progress(position: int, goal: int) -> None:
            bar.update(task, completed=position, total=max(position, goal))

        switched = await rebuild_rows(folding, show_progress)
    if switched is None:
        raise Unavailable("rebuild", "another one took over; its rows are in force")
    return switched.position


@asynccontextmanager
async def _open_settings(
    target: LogTarget, environ: Mapping[str, str]
) -> AsyncGenerator[ProjectorSettings]:
    """Yield the settings of the environment, of a running service, or of a data directory."""
    if "TURNLOG_NATS_URL" in environ:
        yield read_settings(ProjectorSettings, environ)
        return
    overrides = {"data_dir": target.data_dir, "tenant": target.tenant}
    own = read_settings(AllInOneSettings, environ, overrides)
    settings = apply_directory_keyring(own, creating=False)
    if isinstance(locate_data(None, target.data_dir), RunningService):
        yield settings.build_role_settings(
            ProjectorSettings, _read_nats_address(target.data_dir), None
        )
        return
    async with await NatsServer.start(NatsConfig(data_dir=target.data_dir, monitor=True)) as server:
        yield settings.build_role_settings(ProjectorSettings, server.url, server.monitor_url)


def _read_nats_address(data_dir: Path) -> str:
    return str(json.loads((data_dir / READY_FILE).read_bytes())["nats"])
