"""Checks that rows and states can be rebuilt from the log alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.projections.store.row_fold import Rows, read_rows
from tests.support.processes.live_service import SERVICE_TIMEOUT, TENANT, LiveService
from tests.support.processes.process_host import POLL_INTERVAL
from tests.support.processes.separate_roles import SNAPSHOT_KEY
from tests.support.sessions.session_harness import EmptyCommandIndex
from turnlog.events.codec import decode_event
from turnlog.events.envelope import RecordedEvent
from turnlog.events.jetstream.jetstream_client import JetStreamClient
from turnlog.projections.session.evolve import fold
from turnlog.projections.session.state import SessionState
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.write.projection_positions import read_active_position
from turnlog.services.caches.media_cache import MediaReader
from turnlog.services.caches.session_snapshots import (
    AuthenticatedSnapshotStore,
    CheckedSnapshotStore,
    SealedSnapshotStore,
)
from turnlog.services.caches.text_cache import TextReader
from turnlog.services.platform.clock import create_id, read_clock
from turnlog.services.platform.telemetry.traces import create_tracing
from turnlog.services.projector.log_fold import LogFolder, rebuild_rows
from turnlog.services.sessions.command_handler import CommandHandler

NO_TRACING = create_tracing("test", None)


async def read_rows_around_rebuild(service: LiveService, database: str) -> tuple[Rows, Rows]:
    """Return the live rows before and after a rebuild beside the running service."""
    end = max(recorded.stream_sequence for recorded in await read_all_events(service))
    async with _open_read_models(database) as store:
        before = await read_rows(store, await _wait_for_live_build(store, end))
        folding = LogFolder(log=service.nats.log, store=store, tracing=NO_TRACING, tenant=TENANT)
        assert await rebuild_rows(folding, lambda _position, _goal: None)
        return before, await read_rows(store, await _wait_for_live_build(store, end))


async def load_and_fold_states(
    service: LiveService,
) -> list[tuple[SessionState, SessionState | None]]:
    """Return each session's state as a new process loads it, and as its events fold to it."""
    sessions = _build_command_handler(service.nats)
    states: list[tuple[SessionState, SessionState | None]] = []
    for session in await _list_sessions(service):
        loaded = await sessions.require_state(TENANT, session)
        states.append((loaded, fold(await service.list_events(session))))
    return states


async def list_snapshotted_sessions(service: LiveService) -> list[str]:
    """Give the sessions whose state a new process loads from a snapshot."""
    snapshots = _build_snapshot_store(service.nats)
    known = await _list_sessions(service)
    return [session for session in known if await snapshots.load_state(TENANT, session)]


async def _list_sessions(service: LiveService) -> list[str]:
    return sorted({recorded.session for recorded in await read_all_events(service)})


async def read_all_events(service: LiveService) -> list[RecordedEvent]:
    """Give all events there are."""
    bulks = service.nats.log.stream_raw_events(None, 0, live=False)
    return [decode_event(raw.stored, raw.stream_sequence) async for bulk in bulks for raw in bulk]


async def _wait_for_live_build(store: ReadModelStore, end: int) -> int:
    """Wait until the live rows hold the end of the log; gives their build."""
    async with asyncio.timeout(SERVICE_TIMEOUT):
        while True:
            async with store.open_reader() as connection:
                at = await read_active_position(connection)
            if at and at.position >= end:
                return at.build
            await asyncio.sleep(POLL_INTERVAL)


@asynccontextmanager
async def _open_read_models(database: str) -> AsyncGenerator[ReadModelStore]:
    store = open_store(database)
    try:
        yield store
    finally:
        await store.close()


def _build_snapshot_store(nats: JetStreamClient) -> CheckedSnapshotStore:
    sealed = SealedSnapshotStore(nats.snapshots, nats.connection.keys)
    return CheckedSnapshotStore(nats.log, AuthenticatedSnapshotStore(sealed, SNAPSHOT_KEY))


def _build_command_handler(nats: JetStreamClient) -> CommandHandler:
    snapshots = _build_snapshot_store(nats)
    texts = TextReader(log=nats.log, blobs=nats.blobs, media=MediaReader(nats.media))
    return CommandHandler(
        log=nats.log,
        snapshots=snapshots,
        texts=texts,
        older_commands=EmptyCommandIndex(),
        clock=read_clock,
        create_id=create_id,
        source="/test",
    )
