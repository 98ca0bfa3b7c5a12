"""Counting the turns of a tenant that are not over."""

from __future__ import annotations

from tests.projections.store.row_fold import fold_log
from tests.projections.store.session_histories import (
    StoredSession,
    build_completed,
    build_opened,
    build_submitted,
)
from turnlog.events.content import PlainText
from turnlog.events.model.tool_events import ApprovalDecided, ApprovalRequested
from turnlog.events.model.turn_events import TurnQueued
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.open_turn_queries import OpenTurnCounts, count_open_turns


def build_requested(approval: int) -> ApprovalRequested:
    return ApprovalRequested(
        turn=1,
        approval=approval,
        call="1.1",
        id=f"call_{approval}",
        tool="shop_pay",
        deadline="2026-01-02T00:00:00.000000Z",
    )


def build_decided(approval: int) -> ApprovalDecided:
    return ApprovalDecided(
        turn=1,
        approval=approval,
        call="1.1",
        id=f"call_{approval}",
        tool="shop_pay",
        decision="approve",
    )


async def count(store: ReadModelStore, log: MemoryLog, tenant: str = "t") -> OpenTurnCounts:
    await fold_log(store, log)
    async with store.open_reader() as connection:
        return await count_open_turns(connection, tenant)


async def test_turns_that_wait_for_a_person_are_counted_apart(store: ReadModelStore) -> None:
    log = MemoryLog()
    session = StoredSession(log=log)
    await session.append_events(build_opened())
    await session.append_events(build_submitted(1, "Pay"))
    await session.append_events(TurnQueued(turn=2, text=PlainText(text="Then this")))
    other = StoredSession(log=log, tenant="other")
    await other.append_events(build_opened())
    await other.append_events(build_submitted(1, "Hi"))
    assert await count(store, log) == OpenTurnCounts(2, 0, 5)
    await session.append_events(build_requested(1), build_requested(2))
    assert await count(store, log) == OpenTurnCounts(1, 1, 7)
    await session.append_events(build_decided(1))
    assert (await count(store, log)).waiting == 1
    await session.append_events(build_decided(2))
    assert await count(store, log) == OpenTurnCounts(2, 0, 9)
    await session.append_events(build_completed(1, "Paid"))
    assert await count(store, log) == OpenTurnCounts(1, 0, 10)
    assert await count(store, log, "other") == OpenTurnCounts(1, 0, 10)


async def test_turn_that_ended_undecided_waits_for_nobody(store: ReadModelStore) -> None:
    log = MemoryLog()
    session = StoredSession(log=log)
    await session.append_events(build_opened())
    await session.append_events(build_submitted(1, "Pay"))
    await session.append_events(build_requested(1))
    await session.append_events(build_completed(1, "Never mind"))
    assert await count(store, log) == OpenTurnCounts(0, 0, 4)
