"""A nats-server restored from an older store: the projector stops and folds nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.parts.old_store import copied, grown, put_back
from tests.projections.store.histories import Story, completed, opened, submitted
from tests.services.projector.running import LONG, Running
from turnlog.events.errors import Corrupt
from turnlog.events.jetstream.jetstream_client import JetStreamClient
from turnlog.events.jetstream.jetstream_client import open_client as opened_nats
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.store.ports import EventLog
from turnlog.projections.store.engine import ReadModelStore
from turnlog.services.platform.nats_server import NatsConfig, NatsServer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "nats"


@pytest.fixture
async def server(folder: Path) -> AsyncIterator[NatsServer]:
    async with await NatsServer.start(NatsConfig(folder)) as server:
        yield server


@pytest.fixture
async def nats(server: NatsServer) -> AsyncIterator[JetStreamClient]:
    async with opened_nats(server.url, StreamOptions()) as nats:
        yield nats


async def another_history(log: EventLog) -> None:
    for number in range(3):
        await Story(log, f"new-{number}").tell(opened(), submitted(1, "another history"))


@pytest.mark.parametrize("idle", [False, True])
@pytest.mark.parametrize("grew", [False, True])
async def test_projector_stops_when_the_store_is_rolled_back_under_it_and_only_new_sessions_come(
    store: ReadModelStore,
    nats: JetStreamClient,
    server: NatsServer,
    folder: Path,
    tmp_path: Path,
    *,
    grew: bool,
    idle: bool,
) -> None:
    story, running = Story(nats.log), Running(nats.log, store)
    await story.tell(opened(), submitted(1, "one"))
    await copied(server, folder, tmp_path / "copy")
    if grew:
        await grown(tmp_path / "copy", another_history)
    if idle:
        # What it has folded before it begins it has not been given itself.
        await story.tell(completed(1, "first"), submitted(2, "two"))
        async with running.beside():
            await running.caught_up(story)
    with capture_logs() as said:
        task = asyncio.create_task(running.run())
        if not idle:
            await story.tell(completed(1, "first"), submitted(2, "two"))
        await running.caught_up(story)
        before = await running.rows()
        await put_back(server, folder, tmp_path / "copy")
        if not grew:
            await another_history(nats.log)
        with pytest.raises(Corrupt, match="turnlog rebuild"):
            await asyncio.wait_for(task, LONG)
    assert "projector-stopped" in [line["event"] for line in said]
    assert await running.rows() == before
    assert [row[1] for row in before["sessions"]] == ["s"]
    rebuilt = await running.rebuilt()
    assert [row[1] for row in rebuilt["sessions"]] == ["new-0", "new-1", "new-2", "s"]
