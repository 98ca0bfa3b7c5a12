"""A rebuild killed at ten points leaves the live rows alone and can be repeated."""

from __future__ import annotations

import signal

import pytest

from tests.projections.store.session_histories import (
    StoredSession,
    build_completed,
    build_opened,
    build_submitted,
)
from tests.services.projector.projector_runner import ProjectorRunner
from tests.support.processes.forking_process import start_forking_process
from turnlog.events.jetstream.jetstream_client import open_client as opened_nats
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.projections.store.engine import ReadModelStore

pytestmark = pytest.mark.slow("rows are built many times over, on both databases")

POINTS = 10

_KILLED = """
import os, signal, sys
from sqlalchemy import event
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.jetstream.jetstream_client import open_client
from turnlog.projections.store.engine import open_store
from turnlog.services.projector import log_fold
from turnlog.services.platform.telemetry.traces import create_tracing

nats_url, database_url, tenant = sys.argv[1:]

async def main(written):
    left = number = int(written)

    def kill(*_):
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    store = open_store(database_url)
    for engine in filter(None, (store.engine.sync_engine, store.writer)):
        for moment in ("before_cursor_execute", "commit"):
            event.listen(engine, moment, kill)
    async with open_client(nats_url, StreamOptions()) as nats:
        tracing = create_tracing("p", None)
        fold = log_fold.LogFolder(
            log=nats.log, store=store, tracing=tracing, tenant=tenant, catch_up_batch=7
        )
        await log_fold.rebuild_rows(fold, lambda position, goal: None)
    await store.close()
    return number - left
"""


@pytest.mark.promise("P11")
@pytest.mark.timeout(300)
async def test_rebuild_killed_at_ten_points_leaves_the_live_rows_and_can_be_repeated(
    store: ReadModelStore, database_url: str, nats_url: str, fresh_tenant: str
) -> None:
    async with opened_nats(nats_url, StreamOptions()) as nats:
        story = StoredSession(log=nats.log, session="s", tenant=fresh_tenant)
        await story.append_events(build_opened())
        for turn in range(1, 12):
            await story.append_events(
                build_submitted(turn, f"turn {turn}"), build_completed(turn, "reply")
            )
        running = ProjectorRunner(log=nats.log, store=store)
        before = await running.rebuild_rows()
        source = (_KILLED, nats_url, database_url, fresh_tenant)
        async with start_forking_process(*source) as process:
            code, statements = await process.run_fork(1_000_000)
            assert code == 0
            for point in range(1, POINTS + 1):
                code, _ = await process.run_fork(int(statements) * point // (POINTS + 1))
                assert code == -signal.SIGKILL
                assert await running.read_rows() == before
        assert await running.rebuild_rows() == before
