"""The projector keeps the rows up to date through faults around it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sqlalchemy import Connection, make_url, text
from structlog.testing import capture_logs

from tests.projections.store.row_fold import read_turn_rows
from tests.projections.store.session_histories import (
    StoredSession,
    append_raw,
    build_completed,
    build_opened,
    build_submitted,
)
from tests.services.projector.projector_runner import TEST_TIMEOUT_SECONDS, ProjectorRunner
from tests.support.servers.postgres_server import PostgresServer
from turnlog.events.errors import Corrupt, Unavailable
from turnlog.events.store.memory_log import MemoryLog
from turnlog.events.store.ports import RawEvent
from turnlog.projections.store.engine import ReadModelStore, Result, open_store
from turnlog.projections.store.read.read_your_writes import wait_until_folded
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.projections.store.write import projection_positions
from turnlog.services.platform.telemetry.traces import Tracing


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


async def read_position(store: ReadModelStore) -> int:
    async with store.open_reader() as connection:
        live = await projection_positions.read_active_position(connection)
    return live.position if live else 0


async def test_rows_follow_the_log_as_it_grows(store: ReadModelStore, log: MemoryLog) -> None:
    running, story = ProjectorRunner(log=log, store=store), StoredSession(log=log)
    async with running.run_in_background():
        await story.append_events(build_opened(), build_submitted(1, "one"))
        await running.wait_for_stories(story)
        await story.append_events(build_completed(1, "first"))
        await running.wait_for_stories(story)
    async with store.open_reader() as connection:
        (turn,) = await read_turn_rows(connection, "t", "s")
    assert turn.status == "completed"


async def test_projector_creates_its_own_tables(database_url: str, log: MemoryLog) -> None:
    store = open_store(database_url)
    story = StoredSession(log=log)
    await story.append_events(build_opened())
    running = ProjectorRunner(log=log, store=store)
    next_signal = running.projection_signal.get_next_signal()
    async with running.run_in_background():
        await asyncio.wait_for(next_signal.wait(), TEST_TIMEOUT_SECONDS)
        await running.wait_for_stories(story)
    await store.close()


class SingleEventLog(MemoryLog):
    """A log that yields its events one by one, so that there are many points to interrupt."""

    async def stream_raw_events(
        self, tenant: str | None, after: int, *, live: bool
    ) -> AsyncGenerator[Sequence[RawEvent]]:
        async with aclosing(super().stream_raw_events(tenant, after, live=live)) as bulks:
            async for bulk in bulks:
                for raw in bulk:
                    yield [raw]


@pytest.mark.slow("rows are built many times over, on both databases")
async def test_projector_cancelled_at_any_statement_folds_every_event_once(
    store: ReadModelStore,
) -> None:
    story = StoredSession(log=SingleEventLog())
    await story.append_events(
        build_opened(), *(build_submitted(turn, f"turn {turn}") for turn in range(1, 60))
    )
    running = ProjectorRunner(log=story.log, store=store)
    come_to: set[int] = set()
    for statement in (*range(1, 32, 2), *range(2, 33, 4)):
        await running.cancel_at_statement(statement, running.run_projector())
        come_to.add(await read_position(store))
    assert len(come_to) > 5, "it was never interrupted half-way"
    async with running.run_in_background():
        await running.wait_for_stories(story)
    kept = await running.read_rows()
    assert kept["sessions"]
    assert kept == await running.rebuild_rows()


async def test_events_folded_before_a_restart_are_not_folded_again(
    store: ReadModelStore, log: MemoryLog
) -> None:
    running, story = ProjectorRunner(log=log, store=store), StoredSession(log=log)
    await story.append_events(build_opened(), build_submitted(1, "one"))
    async with running.run_in_background():
        await running.wait_for_stories(story)
    before = await running.read_rows()
    async with running.run_in_background():
        await StoredSession(log=log, session="other").append_events(build_opened())
        await running.wait_for_stories(
            StoredSession(
                log=log, session="other", last_event=await log.read_last_event("t", "other")
            )
        )
    after = await running.read_rows()
    assert after["turns"] == before["turns"]
    assert [row for row in after["sessions"] if row[1] == "s"] == before["sessions"]


async def test_two_projectors_of_one_database_fold_every_event_once(
    store: ReadModelStore, database_url: str
) -> None:
    log = SingleEventLog()
    story = StoredSession(log=log)
    await story.append_events(
        build_opened(), *(build_submitted(turn, f"turn {turn}") for turn in range(1, 20))
    )
    other = open_store(database_url)
    running = ProjectorRunner(log=log, store=store)
    async with (
        running.run_in_background(),
        ProjectorRunner(log=log, store=other).run_in_background(),
    ):
        await running.wait_for_stories(story)
    await other.close()
    assert await running.read_rows() == await running.rebuild_rows()


@pytest.mark.promise("P13")
async def test_poison_event_stops_its_session_with_an_alarm_and_no_other(
    store: ReadModelStore, log: MemoryLog
) -> None:
    bad, good = StoredSession(log=log, session="bad"), StoredSession(log=log, session="good")
    await bad.append_events(build_opened())
    await good.append_events(build_opened())
    append_raw(log, b"no event at all", "good")
    place = append_raw(log, b'{"tenant": "t", "subject": "bad", "sequence": 2}', "bad")
    await good.append_events(build_submitted(1, "one"))
    running = ProjectorRunner(log=log, store=store)
    with capture_logs() as log_lines:
        async with running.run_in_background() as task:
            await running.wait_for_stories(good)
            assert not task.done()
    (alarm,) = [line for line in log_lines if line["event"] == "session-stopped"]
    assert (alarm["log_level"], alarm["session"], alarm["position"]) == ("error", "bad", place)
    (warning,) = [line for line in log_lines if line["event"] == "stray-messages"]
    assert (warning["log_level"], warning["session"], warning["count"]) == ("warning", "good", 1)


async def run_until_corrupt(running: ProjectorRunner) -> Corrupt:
    """Run a projector that must stop with an alarm, and return the error."""
    before = await running.read_rows()
    with capture_logs() as log_lines, pytest.raises(Corrupt) as corrupt:
        await asyncio.wait_for(running.run_projector(), TEST_TIMEOUT_SECONDS)
    assert [line["event"] for line in log_lines if line["log_level"] == "error"] == [
        "projector-stopped"
    ]
    assert await running.read_rows() == before
    return corrupt.value


async def fold_story(store: ReadModelStore, log: MemoryLog) -> StoredSession:
    """Tell a little, and let it be folded."""
    story = StoredSession(log=log)
    await story.append_events(
        build_opened(),
        build_submitted(1, "one"),
        build_completed(1, "first"),
        build_submitted(2, "two"),
    )
    running = ProjectorRunner(log=log, store=store)
    async with running.run_in_background():
        await running.wait_for_stories(story)
    return story


async def test_recreated_log_is_never_folded_onto_the_old_rows(
    store: ReadModelStore, log: MemoryLog
) -> None:
    await fold_story(store, log)
    new_log = MemoryLog(created="2026-02-02T00:00:00Z")
    await StoredSession(log=new_log, session="other").append_events(
        build_opened(), build_submitted(1, "another history")
    )
    corrupt = await run_until_corrupt(ProjectorRunner(log=new_log, store=store))
    assert "2026-02-02" in str(corrupt)
    assert "turnlog rebuild" in str(corrupt)


async def test_rolled_back_log_is_never_folded_onto_the_old_rows(
    store: ReadModelStore, log: MemoryLog
) -> None:
    await fold_story(store, log)
    roll_back(log, 2)
    assert "ends before 4" in str(await run_until_corrupt(ProjectorRunner(log=log, store=store)))


async def test_rolled_back_log_that_grew_again_is_never_folded_onto_the_old_rows(
    store: ReadModelStore, log: MemoryLog
) -> None:
    await fold_story(store, log)
    roll_back(log, 1)
    await StoredSession(log=log, session="other").append_events(
        build_opened(), *(build_submitted(turn, "x") for turn in range(1, 6))
    )
    assert "its event at 4 is not the one in the rows" in str(
        await run_until_corrupt(ProjectorRunner(log=log, store=store))
    )


async def test_log_rolled_back_while_being_followed_stops_the_projector(
    store: ReadModelStore, log: MemoryLog
) -> None:
    story = await fold_story(store, log)
    running = ProjectorRunner(log=log, store=store)
    task = asyncio.create_task(running.run_projector())
    await story.append_events(build_completed(2, "second"))
    await running.wait_for_stories(story)
    before = await running.read_rows()
    roll_back(log, 2)
    story.last_event = await log.read_last_event("t", "s")
    await story.append_events(*(build_completed(1, f"otherwise {number}") for number in range(5)))
    with pytest.raises(Corrupt, match="its event at 5 is not the one in the rows"):
        await asyncio.wait_for(task, TEST_TIMEOUT_SECONDS)
    assert await running.read_rows() == before


async def test_log_that_briefly_seems_too_short_is_read_again(
    store: ReadModelStore, log: MemoryLog
) -> None:
    story = await fold_story(store, log)
    late = log.stored.pop()
    running = ProjectorRunner(log=log, store=store, read_timeout=TEST_TIMEOUT_SECONDS)
    async with running.run_in_background() as task:
        await asyncio.sleep(0.05)
        assert not task.done()
        log.stored.append(late)
        await story.append_events(build_completed(2, "second"))
        await running.wait_for_stories(story)


def roll_back(log: MemoryLog, to: int) -> None:
    """Restore an older copy of the log."""
    del log.stored[to:]
    for places in log.sessions.values():
        places[:] = [place for place in places if place <= to]


async def test_rows_of_a_later_release_stop_an_earlier_projector(
    store: ReadModelStore, log: MemoryLog
) -> None:
    await fold_story(store, log)
    async with store.open_writer() as connection:
        await connection.execute(text("UPDATE projections SET version = version + 1"))
    assert "later" in str(await run_until_corrupt(ProjectorRunner(log=log, store=store)))


async def test_projector_waits_for_a_locked_sqlite_database(tmp_path: Path, log: MemoryLog) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'rows.db'}")
    await prepare_schema(store)
    story = await fold_story(store, log)
    locker = open_store(f"sqlite:///{tmp_path / 'rows.db'}")
    running = ProjectorRunner(log=log, store=store)
    async with running.run_in_background():
        async with locker.open_writer() as connection:
            await connection.execute(text("UPDATE projections SET version = version"))
            await story.append_events(build_completed(2, "second"))
            assert not await wait_until_folded(
                store=store,
                signal=running.projection_signal,
                tenant="t",
                session="s",
                sequence=5,
                within=0.3,
            )
        await running.wait_for_stories(story)
    await locker.close()
    await store.close()


_END_CONNECTIONS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname ="


async def test_projector_waits_for_unreachable_postgres_and_loses_no_event(
    postgres_url: str, postgres_server: PostgresServer, log: MemoryLog
) -> None:
    store = open_store(postgres_url)
    await prepare_schema(store)
    story = await fold_story(store, log)
    database = make_url(postgres_url).database
    running = ProjectorRunner(log=log, store=store)
    with capture_logs() as log_lines:
        async with running.run_in_background() as task:
            await postgres_server.execute_statement(
                f"ALTER DATABASE {database} ALLOW_CONNECTIONS false"
            )
            await postgres_server.execute_statement(f"{_END_CONNECTIONS} '{database}'")
            await story.append_events(build_completed(2, "second"))
            while [line["event"] for line in log_lines].count("projector-waiting") < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert not task.done()
            await postgres_server.execute_statement(
                f"ALTER DATABASE {database} ALLOW_CONNECTIONS true"
            )
            await running.wait_for_stories(story)
    assert await running.read_rows() == await running.rebuild_rows()
    await store.close()


@dataclass(frozen=True, slots=True)
class LostCommitStore(ReadModelStore):
    """A database whose answer to a commit is lost now and then."""

    lost: list[bool] = field(default_factory=list[bool])

    async def run_writer(self, work: Callable[[Connection], Result]) -> Result:
        result = await ReadModelStore.run_writer(self, work)
        if self.lost and self.lost.pop():
            raise Unavailable("database", "connection lost while committing")
        return result


async def test_commit_with_a_lost_response_is_detected_and_not_repeated(
    store: ReadModelStore,
) -> None:
    log = SingleEventLog()
    story = StoredSession(log=log)
    await story.append_events(
        build_opened(), *(build_submitted(turn, f"turn {turn}") for turn in range(1, 8))
    )
    forgetful = LostCommitStore(store.engine, store.writer, [True, False] * 4)
    running = ProjectorRunner(log=log, store=forgetful)
    async with running.run_in_background():
        await running.wait_for_stories(story)
    assert not forgetful.lost
    assert await running.read_rows() == await running.rebuild_rows()


async def test_batch_span_links_to_the_traces_of_its_events_without_a_parent(
    store: ReadModelStore, log: MemoryLog
) -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    running = ProjectorRunner(
        log=log, store=store, tracing=Tracing(provider.get_tracer("test"), provider)
    )
    story = StoredSession(log=log)
    await story.append_events(build_opened(), build_submitted(1, "one"))
    async with running.run_in_background():
        await running.wait_for_stories(story)
    (span,) = kept.get_finished_spans()
    assert span.parent is None
    assert len(span.links) == 2
    assert {f"{link.context.span_id:x}" for link in span.links} == {"1", "2"}
