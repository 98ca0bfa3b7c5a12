"""A nats-server restored from an older store: the projector stops and folds nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.projections.store.session_histories import (
    StoredSession,
    build_completed,
    build_opened,
    build_submitted,
)
from tests.services.projector.projector_runner import TEST_TIMEOUT_SECONDS, ProjectorRunner
from tests.support.servers.nats_store_copies import copy_store, extend_store, restore_store
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
    async with await NatsServer.start(NatsConfig(data_dir=folder)) as server:
        yield server


@pytest.fixture
async def nats(server: NatsServer) -> AsyncIterator[JetStreamClient]:
    async with opened_nats(server.url, StreamOptions()) as nats:
        yield nats


async def append_other_history(log: EventLog) -> None:
    for number in range(3):
        await StoredSession(log=log, session=f"new-{number}").append_events(
            build_opened(), build_submitted(1, "another history")
        )


@pytest.mark.parametrize("idle", [False, True])
@pytest.mark.parametrize("grew", [False, True])
async def test_projector_stops_at_a_rolled_back_store_even_if_only_new_sessions_follow(
    store: ReadModelStore,
    nats: JetStreamClient,
    server: NatsServer,
    folder: Path,
    tmp_path: Path,
    *,
    grew: bool,
    idle: bool,
) -> None:
    story, running = StoredSession(log=nats.log), ProjectorRunner(log=nats.log, store=store)
    await story.append_events(build_opened(), build_submitted(1, "one"))
    await copy_store(server, folder, tmp_path / "copy")
    if grew:
        await extend_store(tmp_path / "copy", append_other_history)
    if idle:
        # What it has folded before it begins it has not been given itself.
        await story.append_events(build_completed(1, "first"), build_submitted(2, "two"))
        async with running.run_in_background():
            await running.wait_for_stories(story)
    with capture_logs() as log_lines:
        task = asyncio.create_task(running.run_projector())
        if not idle:
            await story.append_events(build_completed(1, "first"), build_submitted(2, "two"))
        await running.wait_for_stories(story)
        before = await running.read_rows()
        await restore_store(server, folder, tmp_path / "copy")
        if not grew:
            await append_other_history(nats.log)
        with pytest.raises(Corrupt, match="turnlog rebuild"):
            await asyncio.wait_for(task, TEST_TIMEOUT_SECONDS)
    assert "projector-stopped" in [line["event"] for line in log_lines]
    assert await running.read_rows() == before
    assert [row[1] for row in before["sessions"]] == ["s"]
    rebuilt = await running.rebuild_rows()
    assert [row[1] for row in rebuilt["sessions"]] == ["new-0", "new-1", "new-2", "s"]
