"""What turns used, by user and other groups, and what retrieval saved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert

from tests.projections.store.row_fold import ensure_live_position, fold_log
from tests.projections.store.session_histories import (
    StoredSession,
    build_assembled,
    build_ended,
    build_opened,
    build_started,
    build_submitted,
)
from turnlog.events.content import PlainText
from turnlog.events.model.attempt_figures import AttemptCost
from turnlog.events.model.session_events import BlueprintMoved
from turnlog.events.model.turn_events import TurnCancelled, TurnCompleted, TurnFailed, TurnSubmitted
from turnlog.events.registry import KnownEvent
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.session_views.cost_totals import CostTotal
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.growth.group_growth import list_group_growth
from turnlog.projections.store.growth.token_ledger import GrowthFilter
from turnlog.projections.store.read.row_types import UsageFigures
from turnlog.projections.store.read.usage_queries import (
    AttributeGrouping,
    UsageFilter,
    UsageGrouping,
    add_figures,
    list_usage,
)
from turnlog.projections.store.schema.read_model_tables import RETRIEVED_ENTRIES

EVERYTHING = UsageFilter()


@pytest.fixture
def story() -> StoredSession:
    return StoredSession(log=MemoryLog())


def build_turn(
    turn: int, user: str | None, output: int | None, *end: KnownEvent
) -> list[KnownEvent]:
    """Build a turn of one call whose answer has so many tokens."""
    ended = build_ended(turn, 1, tokens=output, micro_dollars=None if output is None else output)
    return [
        build_submitted(turn, "one").model_copy(update={"user": user}),
        build_started(turn, 1),
        build_assembled(turn, f"{turn}.1"),
        ended,
        *(end or (TurnCompleted(turn=turn, call=f"{turn}.1", text=PlainText(text="ok")),)),
    ]


async def mark_retrieval(store: ReadModelStore, *turns: int) -> None:
    """Record that these turns retrieved something."""
    build = (await ensure_live_position(store)).build
    place = {"build": build, "tenant": "t", "session": "s", "collection": "cases"}
    rows = [place | {"turn": turn, "entry": entry} for turn in turns for entry in ("a", "b")]
    async with store.open_writer() as connection:
        await connection.execute(insert(RETRIEVED_ENTRIES), rows)


async def read_usage(
    store: ReadModelStore, by: UsageGrouping = "all", sought: UsageFilter = EVERYTHING
) -> dict[str | None, UsageFigures]:
    async with store.open_reader() as connection:
        rows = await list_usage(connection, "t", by, sought)
    return {
        group: add_figures(row.figures for row in rows if row.group == group)
        for group in dict.fromkeys(row.group for row in rows)
    }


async def test_savings_compare_a_guided_turn_with_the_previous_turn(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened())
    for turn, output in enumerate((100, 70, 90, 60, 50), 1):
        await story.append_events(*build_turn(turn, "ann", output))
    system = TurnSubmitted(turn=6, text=PlainText(text="note"), role="system")
    await story.append_events(system, TurnCompleted(turn=6, text=PlainText(text="")))
    await story.append_events(*build_turn(7, "ann", 45))
    await fold_log(store, story.log)
    await mark_retrieval(store, 2, 3, 5, 7)
    (total,) = (await read_usage(store)).values()
    assert (total.turns, total.guided) == (6, 4)
    # Turn 2 took 30 less and turn 5 ten less; turn 3 took more, and turn 4 retrieved nothing. Turn
    # 7 took five less than turn 5: what an application records is no turn to compare with.
    assert (total.saved_tokens, total.saving_turns) == (45, 3)


async def test_turns_are_counted_by_user_and_outcome(
    store: ReadModelStore, story: StoredSession
) -> None:
    failed = TurnFailed(turn=2, code="timeout", detail="slow", retryable=True)
    system = TurnSubmitted(turn=4, text=PlainText(text="note"), role="system")
    await story.append_events(build_opened(), *build_turn(1, "ann", 40))
    await story.append_events(*build_turn(2, "ann", None, failed), *build_turn(3, None, 9))
    await story.append_events(system, TurnCompleted(turn=4, text=PlainText(text="")))
    await fold_log(store, story.log)
    users = await read_usage(store, "user")
    ann = users["ann"]
    assert (ann.turns, ann.completed, ann.failed, ann.output_tokens) == (2, 1, 1, 40)
    assert (ann.unknown_attempts, ann.cost) == (1, CostTotal(40, guessed=False, unpriced_calls=1))
    assert users[None].turns == 1, "what an application records is no turn of anybody"
    (only,) = (await read_usage(store, "all", UsageFilter(user="ann"))).values()
    assert only == ann


async def test_call_with_several_unpriced_attempts_is_one_call_without_a_price(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened(), *build_turn(1, "ann", 40))
    await story.append_events(build_submitted(2, "two"), build_started(2, 1))
    await story.append_events(build_assembled(2, "2.1"))
    for attempt in (1, 2, 3):
        if attempt > 1:
            await story.append_events(build_started(2, attempt))
        await story.append_events(build_ended(2, attempt, tokens=None, micro_dollars=None))
    await fold_log(store, story.log)
    (total,) = (await read_usage(store)).values()
    assert total.cost == CostTotal(40, guessed=False, unpriced_calls=1)


@pytest.mark.parametrize(
    ("by", "group"),
    [
        ("profile", "chat"),
        ("blueprint", "assistant"),
        ("model", "scripted/demo"),
        ("day", "2026-01-01"),
        ("hour", "2026-01-01T00"),
    ],
)
async def test_usage_is_grouped_by_each_dimension_within_the_time_range(
    store: ReadModelStore, story: StoredSession, by: UsageGrouping, group: str
) -> None:
    await story.append_events(build_opened(), *build_turn(1, "ann", 40))
    await fold_log(store, story.log)
    assert list(await read_usage(store, by)) == [group]
    later = UsageFilter(since=datetime(2027, 1, 1, tzinfo=UTC))
    assert await read_usage(store, by, later) == {}
    earlier = UsageFilter(until=datetime(2027, 1, 1, tzinfo=UTC))
    assert list(await read_usage(store, by, earlier)) == [group]


async def test_usage_is_grouped_by_the_code_of_failures(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened(), *build_turn(1, "ann", 40))
    for turn, code in ((2, "timeout"), (3, "guard"), (4, "timeout")):
        failed = TurnFailed(turn=turn, code=code, detail="-", retryable=True)
        await story.append_events(*build_turn(turn, "ann", 10, failed))
    await fold_log(store, story.log)
    found = await read_usage(store, "failure")
    assert {code: (used.turns, used.failed) for code, used in found.items()} == {
        None: (1, 0),
        "guard": (1, 1),
        "timeout": (2, 2),
    }
    assert found["timeout"].cost.micro_dollars == 20


async def test_tokens_of_caches_are_summed_apart(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened())
    for turn, figures in enumerate(({"cached_tokens": 30, "cache_write_tokens": 4}, {}), 1):
        ended = build_ended(turn, 1, tokens=40, micro_dollars=1)
        usage = ended.usage.model_copy(update=figures)
        submitted, started, assembled, *_ = build_turn(turn, "ann", 40)
        await story.append_events(submitted, started, assembled)
        await story.append_events(ended.model_copy(update={"usage": usage}))
    await fold_log(store, story.log)
    (total,) = (await read_usage(store)).values()
    assert (total.input_tokens, total.cached_tokens, total.cache_write_tokens) == (80, 30, 4)
    async with store.open_reader() as connection:
        (group,) = await list_group_growth(connection, "t", (), GrowthFilter())
    assert (group.input_tokens, group.cached_tokens) == (80, 30)


async def test_usage_is_grouped_by_the_value_of_an_attribute_in_force(
    store: ReadModelStore,
) -> None:
    log = MemoryLog()
    values: dict[str, dict[str, str | int | bool]] = {
        "one": {"language": "lt", "level": 3},
        "two": {"language": "de", "level": 3},
        "three": {"language": "lt", "level": 3},
    }
    for session, attributes in values.items():
        story = StoredSession(log=log, session=session)
        await story.append_events(opened := build_opened("assistant", **attributes))
        await story.append_events(*build_turn(1, "ann", 40))
        if session == "three":
            ref, given = opened.blueprint, {"language": "de"}
            moved = BlueprintMoved(before=ref, blueprint=ref, attributes={**given}, reach=0)
            await story.append_events(moved)
    await fold_log(store, log)
    languages = await read_usage(store, AttributeGrouping("language"))
    assert {group: used.turns for group, used in languages.items()} == {"de": 2, "lt": 1}
    levels = await read_usage(store, AttributeGrouping("level"))
    assert {group: used.turns for group, used in levels.items()} == {None: 1, "3": 2}


async def test_since_is_inclusive_and_until_is_exclusive(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened(), *build_turn(1, "ann", 40))
    await fold_log(store, story.log)
    submitted = story.at
    assert await read_usage(store, "user", UsageFilter(since=submitted))
    assert not await read_usage(store, "user", UsageFilter(until=submitted))
    later = submitted + timedelta(microseconds=1)
    assert not await read_usage(store, "user", UsageFilter(since=later))
    assert await read_usage(store, "user", UsageFilter(until=later))


async def test_cost_is_guessed_if_the_price_of_one_attempt_is(
    store: ReadModelStore, story: StoredSession
) -> None:
    guess = AttemptCost(micro_dollars=5, price="fallback", table="t1")
    ended = build_ended(2, 1, tokens=9, micro_dollars=5).model_copy(update={"cost": guess})
    await story.append_events(build_opened(), *build_turn(1, "ann", 40))
    await story.append_events(build_submitted(2, "one"), build_started(2, 1), ended)
    await fold_log(store, story.log)
    users = await read_usage(store, "user")
    assert [users[name].cost.guessed for name in ("ann", None)] == [False, True]


async def test_a_cancelled_turn_is_neither_completed_nor_failed(
    store: ReadModelStore, story: StoredSession
) -> None:
    cancelled = TurnCancelled(turn=1, reason="cancelled")
    await story.append_events(build_opened(), *build_turn(1, "ann", 9, cancelled))
    await story.append_events(build_submitted(2, "one"), build_started(2, 1))
    await fold_log(store, story.log)
    (total,) = (await read_usage(store)).values()
    assert (total.turns, total.completed, total.failed, total.cancelled) == (2, 0, 0, 1)


async def test_turn_is_grouped_by_the_profile_and_model_of_its_last_attempt(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened(), build_submitted(1, "one"))
    for number in (2, 10):
        model = f"scripted/model-{number}"
        assembled = build_assembled(1, f"1.{number}").model_copy(update={"model": model})
        ended = build_ended(1, number, tokens=9, micro_dollars=0).model_copy(
            update={"call": f"1.{number}"}
        )
        started = build_started(1, number).model_copy(update={"call": f"1.{number}"})
        await story.append_events(started, assembled, ended)
    await fold_log(store, story.log)
    assert list(await read_usage(store, "model")) == ["scripted/model-10"]
