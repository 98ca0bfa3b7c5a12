"""What a coordinator's turns and their children took: apart, together, and each attempt once."""

from __future__ import annotations

from tests.projections.store.row_fold import fold_log
from tests.projections.store.session_histories import (
    StoredSession,
    build_ended,
    build_opened,
    build_started,
    build_submitted,
)
from turnlog.events.model.child_events import ChildRequested
from turnlog.events.registry import KnownEvent
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.session_views.cost_totals import CostTotal
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.child_usage import list_turn_usage
from turnlog.projections.store.read.row_types import ListedSession, TurnUsageTotal, UsageTotal
from turnlog.projections.store.read.session_queries import SessionQuery, list_sessions
from turnlog.projections.store.read.usage_queries import UsageFilter, add_figures, list_usage


def build_turn(turn: int, tokens: int | None) -> list[KnownEvent]:
    """Build a turn with one attempt of so many tokens, each way, and as many micro-dollars."""
    ended = build_ended(turn, 1, tokens=tokens, micro_dollars=tokens)
    return [build_submitted(turn, "one"), build_started(turn, 1), ended]


def ask_child(turn: int, child: str, child_turn: int) -> ChildRequested:
    id = f"{child}-{child_turn}"
    return ChildRequested(
        turn=turn, call=f"{turn}.1", id=id, profile="chat", session=child, child_turn=child_turn
    )


def build_usage(tokens: int, unknown: int = 0) -> UsageTotal:
    cost = CostTotal(tokens, guessed=False, unpriced_calls=unknown)
    return UsageTotal(
        input_tokens=tokens,
        output_tokens=tokens,
        total_tokens=2 * tokens,
        micro_dollars=tokens,
        unknown_attempts=unknown,
        cost=cost,
    )


async def read_sessions(store: ReadModelStore) -> dict[str, ListedSession]:
    async with store.open_reader() as connection:
        page = await list_sessions(connection, "t", SessionQuery())
    return {row.session: row for row in page.sessions}


async def test_child_usage_is_listed_beside_the_parent_turn_and_counted_once_in_totals(
    store: ReadModelStore,
) -> None:
    log = MemoryLog()
    parent, child, grandchild, stranger = (
        StoredSession(log=log, session=name)
        for name in ("parent", "child", "grandchild", "stranger")
    )
    for each in (parent, child, grandchild, stranger):
        await each.append_events(build_opened())
    await parent.append_events(
        *build_turn(1, 1), ask_child(1, "child", 1), ask_child(1, "child", 2), *build_turn(2, 10)
    )
    await parent.append_events(*build_turn(3, 100), ask_child(3, "child", 3))
    await child.append_events(*build_turn(1, 1_000), ask_child(1, "grandchild", 1))
    await child.append_events(*build_turn(2, 10_000), *build_turn(3, None))
    await grandchild.append_events(*build_turn(1, 100_000))
    await stranger.append_events(*build_turn(1, 1_000_000))
    await fold_log(store, log)
    async with store.open_reader() as connection:
        turns = await list_turn_usage(connection, "t", "parent")
        usage = await list_usage(connection, "t", "all", UsageFilter())
    first, third = turns
    theirs = build_usage(111_000)
    assert first == TurnUsageTotal(1, build_usage(1), theirs, build_usage(111_001))
    assert (third.turn, third.usage, third.children_usage.cost.micro_dollars) == (
        3,
        build_usage(100),
        None,
    )
    assert third.total_usage == build_usage(100, unknown=1)
    rows = await read_sessions(store)
    assert rows["parent"].usage == build_usage(111)
    assert rows["parent"].children_usage == build_usage(111_000, unknown=1)
    assert rows["parent"].total_usage == build_usage(111_111, unknown=1)
    assert rows["child"].children_usage == build_usage(100_000)
    for name in ("grandchild", "stranger"):
        assert (rows[name].children_usage, rows[name].total_usage) == (None, None)
    every = add_figures(row.figures for row in usage)
    assert every.input_tokens == sum(row.usage.input_tokens for row in rows.values()) == 1_111_111
