"""Checks that rows and states can be rebuilt from the log alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.parts.house import NoOlderCommands
from tests.parts.processes import LOOK_EVERY
from tests.parts.service import TENANT, WITHIN, Service
from tests.projections.store.folding import Rows, rows_of
from turnlog.events.codec import read
from turnlog.events.envelope import Recorded
from turnlog.events.nats.opening import JetStream
from turnlog.projections.session.evolve import fold
from turnlog.projections.session.state import SessionState
from turnlog.projections.store.checkpoints import active
from turnlog.projections.store.engine import Store, open_store
from turnlog.services.projector.folding import Folding
from turnlog.services.projector.rebuild import rebuild
from turnlog.services.runtime.clock import new_id, now
from turnlog.services.runtime.sessions import Sessions
from turnlog.services.runtime.snapshots import CheckedSnapshots
from turnlog.services.runtime.telemetry import tracing
from turnlog.services.runtime.texts import TextReader

SILENT = tracing("test", None)


async def rows_before_and_after(service: Service, database: str) -> tuple[Rows, Rows]:
    """Return the live rows before and after a rebuild beside the running service."""
    end = max(recorded.stream_sequence for recorded in await everything(service))
    async with _store(database) as store:
        before = await rows_of(store, await _live(store, end))
        folding = Folding(service.nats.log, store, SILENT, TENANT)
        assert await rebuild(folding, lambda _position, _goal: None)
        return before, await rows_of(store, await _live(store, end))


async def states_loaded_and_folded(
    service: Service,
) -> list[tuple[SessionState, SessionState | None]]:
    """Return each session's state as a new process loads it, and as its events fold to it."""
    sessions = _sessions(service.nats)
    states: list[tuple[SessionState, SessionState | None]] = []
    for session in await _known(service):
        loaded = await sessions.load_open(TENANT, session)
        states.append((loaded, fold(await service.events(session))))
    return states


async def snapshots_held(service: Service) -> list[str]:
    """List the sessions whose state a new process loads from a snapshot."""
    snapshots = CheckedSnapshots(service.nats.log, service.nats.snapshots)
    known = await _known(service)
    return [session for session in known if await snapshots.load(TENANT, session)]


async def _known(service: Service) -> list[str]:
    return sorted({recorded.session for recorded in await everything(service)})


async def everything(service: Service) -> list[Recorded]:
    """Read all events of the log."""
    bulks = service.nats.log.follow(None, 0, live=False)
    return [read(raw.stored, raw.stream_sequence) async for bulk in bulks for raw in bulk]


async def _live(store: Store, end: int) -> int:
    """Wait until the live rows include the end of the log; return their build."""
    async with asyncio.timeout(WITHIN):
        while True:
            async with store.reading() as connection:
                at = await active(connection)
            if at and at.position >= end:
                return at.build
            await asyncio.sleep(LOOK_EVERY)


@asynccontextmanager
async def _store(database: str) -> AsyncGenerator[Store]:
    store = open_store(database)
    try:
        yield store
    finally:
        await store.close()


def _sessions(nats: JetStream) -> Sessions:
    snapshots = CheckedSnapshots(nats.log, nats.snapshots)
    texts = TextReader(nats.log, nats.blobs)
    return Sessions(nats.log, snapshots, texts, NoOlderCommands(), now, new_id, "/test")
