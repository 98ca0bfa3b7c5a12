"""The projector sums the calls of every hour that is over, and those of hours that change again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from sqlalchemy import select

from tests.projections.store.row_fold import fold_log
from tests.projections.store.session_histories import (
    StoredSession,
    build_assembled,
    build_ended,
    build_opened,
    build_started,
    build_submitted,
)
from turnlog.events.async_tasks import run_tasks
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.schema.hour_tables import ATTEMPT_HOURS
from turnlog.services.projector.hourly_sums import HourlySums


async def test_hour_is_summed_when_it_is_over_and_again_when_an_attempt_of_it_ends(
    store: ReadModelStore,
) -> None:
    story = StoredSession(log=MemoryLog(), at=datetime(2026, 3, 1, 22, tzinfo=UTC))
    await story.append_events(build_opened(), build_submitted(1, "one"))
    await story.append_events(build_assembled(1, "1.1"), build_started(1, 1))
    story.at += timedelta(hours=1)
    await story.append_events(build_assembled(1, "1.2"))
    await fold_log(store, story.log)
    async with run_tasks(HourlySums(store).run()), asyncio.timeout(60):
        await _wait_for_input_tokens(store, [0])
        await story.append_events(build_ended(1, 1, tokens=7, micro_dollars=21))
        await fold_log(store, story.log)
        await _wait_for_input_tokens(store, [7])


async def _wait_for_input_tokens(store: ReadModelStore, expected: list[int]) -> None:
    found: list[int] | None = None
    while found != expected:
        async with store.open_reader() as connection:
            found = list((await connection.scalars(select(ATTEMPT_HOURS.c.input_tokens))).all())
        await asyncio.sleep(0.05)
