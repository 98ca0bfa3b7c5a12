"""The projector on a real nats-server: restarts of either, and kills around a commit."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.projections.store.session_histories import (
    StoredSession,
    build_completed,
    build_opened,
    build_submitted,
)
from tests.services.projector.projector_runner import ProjectorRunner
from tests.support.processes.forking_process import ForkingProcess, start_forking_process
from turnlog.events.jetstream.jetstream_client import JetStreamClient
from turnlog.events.jetstream.jetstream_client import open_client as opened_nats
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.projections.store.engine import ReadModelStore
from turnlog.services.platform.nats_server import NatsConfig, NatsServer


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with await NatsServer.start(NatsConfig(data_dir=tmp_path / "nats")) as server:
        yield server


@pytest.fixture
async def nats(server: NatsServer) -> AsyncIterator[JetStreamClient]:
    async with opened_nats(server.url, StreamOptions()) as nats:
        yield nats


async def append_conversation(nats: JetStreamClient, session: str, turns: int) -> StoredSession:
    story = StoredSession(log=nats.log, session=session)
    await story.append_events(build_opened())
    for turn in range(1, turns + 1):
        await story.append_events(build_submitted(turn, f"turn {turn}"))
        await story.append_events(build_completed(turn, f"reply {turn}"))
    return story


async def test_rows_of_a_real_log_equal_the_rebuilt_ones(
    store: ReadModelStore, nats: JetStreamClient
) -> None:
    running = ProjectorRunner(log=nats.log, store=store)
    past = await append_conversation(nats, "past", 20)
    async with running.run_in_background():
        live = await append_conversation(nats, "live", 20)
        await running.wait_for_stories(past, live)
    rows = await running.read_rows()
    assert len(rows["turns"]) == 40
    assert rows == await running.rebuild_rows()


async def test_nats_restart_loses_and_repeats_no_event(
    store: ReadModelStore, nats: JetStreamClient, server: NatsServer
) -> None:
    running = ProjectorRunner(log=nats.log, store=store)
    async with running.run_in_background() as task:
        before = await append_conversation(nats, "before", 3)
        await running.wait_for_stories(before)
        await server.restart()
        after = await append_conversation(nats, "after", 3)
        await running.wait_for_stories(before, after)
        assert not task.done()
    assert await running.read_rows() == await running.rebuild_rows()


_KILLED = """
import os, signal, sys
from sqlalchemy import event
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.jetstream.jetstream_client import open_client
from turnlog.projections.store.engine import open_store
from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.services.projector.log_fold import LogFolder
from turnlog.services.projector.session_projector import SessionProjector
from turnlog.services.platform.telemetry.traces import create_tracing

nats_url, database_url, when = sys.argv[1:]

async def main(number):
    left = int(number)

    def kill(*_):
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    store = open_store(database_url)
    moment = {"before": "commit", "after": "checkin"}[when]
    for engine in filter(None, (store.engine.sync_engine, store.writer)):
        event.listen(engine, moment, kill)
    async with open_client(nats_url, StreamOptions()) as nats:
        folder = LogFolder(
            log=nats.log, store=store, tracing=create_tracing("p", None), tenant="t"
        )
        await SessionProjector(folder, ProjectionSignal()).run()
"""


@pytest.mark.slow("rows are built many times over, on both databases")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_projector_killed_around_a_commit_loses_and_repeats_no_event(
    store: ReadModelStore, database_url: str, nats: JetStreamClient, server: NatsServer, when: str
) -> None:
    story = await append_conversation(nats, "s", 5)
    running = ProjectorRunner(log=nats.log, store=store)
    async with start_forking_process(_KILLED, server.url, database_url, when) as process:
        for number in (1, 2, 3, 5):
            await append_until_killed(story, process, number)
    async with running.run_in_background():
        await running.wait_for_stories(story)
    assert await running.read_rows() == await running.rebuild_rows()


async def append_until_killed(story: StoredSession, process: ForkingProcess, number: int) -> None:
    """Fork a projector that kills itself, and append events until it has."""
    ended = asyncio.create_task(process.run_fork(number))
    while not ended.done():
        assert story.last_event is not None
        await story.append_events(build_submitted(story.last_event.sequence, "one more"))
        await asyncio.wait({ended}, timeout=0.05)
    assert await ended == (-signal.SIGKILL, "")
