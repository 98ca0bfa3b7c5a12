"""The token ledger: the tokens of each component in each call, and what reduced them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from tests.projections.store.row_fold import fold_log, sum_all_hours
from tests.projections.store.session_histories import (
    StoredSession,
    build_assembled,
    build_ended,
    build_opened,
    build_part,
    build_started,
    build_submitted,
)
from turnlog.events.content import compute_digest
from turnlog.events.errors import Refused
from turnlog.events.model.manifest import AppliedTrimStep, CachePrefix, PromptPart
from turnlog.events.model.session_events import BlueprintMoved, BlueprintRef
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.session_views.cost_totals import NO_COST, CostTotal
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.growth import group_growth
from turnlog.projections.store.growth.group_growth import (
    GrowthBucket,
    GrowthGrouping,
    list_group_growth,
)
from turnlog.projections.store.growth.token_ledger import GrowthFilter, list_call_growth
from turnlog.projections.store.read.row_types import (
    CacheUse,
    CallGrowth,
    GroupGrowth,
    PrefixBreaks,
    PromptSizes,
    RuleSavings,
)

CUT = AppliedTrimStep(step="drop_oldest_pairs", on="chat", component="history", before=90, after=30)

TRIM = AppliedTrimStep(step="drop_oldest_pairs", on="chat", before=50, after=43)


@pytest.fixture
def story() -> StoredSession:
    return StoredSession(log=MemoryLog())


def build_condensed_tools(tokens: int, saved: int) -> PromptPart:
    """Name tools instead of telling of them."""
    tools = build_part("tools_context", tokens=tokens)
    return tools.model_copy(update={"treatment": "condensed", "rule": "names", "saved": saved})


async def read_call_growth(store: ReadModelStore, story: StoredSession) -> tuple[CallGrowth, ...]:
    await fold_log(store, story.log)
    async with store.open_reader() as connection:
        return await list_call_growth(connection, "t", "s", GrowthFilter())


async def read_group_growth(
    store: ReadModelStore,
    by: GrowthGrouping | Literal["all"],
    bucket: GrowthBucket | None = None,
    **conditions: Any,  # noqa: ANN401 - the filter's own
) -> list[GroupGrowth]:
    """Read groups from the rows of their calls, and the same from sums by the hour."""
    groupings: list[GrowthGrouping] = [] if by == "all" else [by]
    sought = GrowthFilter(**conditions)
    async with store.open_reader() as connection:
        of_calls = await list_group_growth(connection, "t", groupings, sought, bucket=bucket)
    await sum_all_hours(store)
    async with store.open_reader() as connection:
        of_hours = await list_group_growth(connection, "t", groupings, sought, bucket=bucket)
    assert of_hours == of_calls
    return list(of_calls)


async def test_each_component_of_each_call_is_counted(
    store: ReadModelStore, story: StoredSession
) -> None:
    cut = build_part("history", tokens=0, message=None, turns=3)
    included = build_part("history", tokens=30, message=1, turns=2)
    system = (build_part("system", tokens=9), build_part("system", tokens=4))
    await story.append_events(
        build_opened(), build_submitted(1, "one"), build_assembled(1, "1.1", *system, cut, included)
    )
    (call,) = await read_call_growth(store, story)
    assert list(call.components.items()) == [("system", 13), ("history", 30)]
    assert call.cut_turns == 3
    assert (call.tokens, call.savings, call.optimizations) == (43, 0, {})


async def test_savings_are_reported_per_rule(store: ReadModelStore, story: StoredSession) -> None:
    await story.append_events(build_opened(), build_submitted(1, "one"))
    made = build_assembled(
        1, "1.1", build_condensed_tools(5, saved=45), steps=(CUT, TRIM), profile="agent"
    )
    await story.append_events(made)
    (call,) = await read_call_growth(store, story)
    assert call.optimizations == {"drop_oldest_pairs": 67, "names": 45}
    assert (call.savings, call.profile) == (112, "agent")


async def test_calls_that_different_rules_shortened_are_each_a_cut_call(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened(), build_submitted(1, "one"))
    condensed = build_condensed_tools(5, saved=45)
    await story.append_events(
        build_assembled(1, "1.1", condensed),
        build_assembled(1, "1.2", build_part("system", tokens=9), steps=(TRIM,)),
        build_assembled(1, "1.3", condensed, steps=(TRIM,)),
        build_assembled(1, "1.4", build_part("system", tokens=9)),
    )
    await fold_log(store, story.log)
    (group,) = await read_group_growth(store, "all")
    assert {each.rule: each.calls for each in group.rules} == {"drop_oldest_pairs": 2, "names": 2}
    assert group.cut_calls == 3


async def test_step_that_condensed_a_part_is_counted_once(
    store: ReadModelStore, story: StoredSession
) -> None:
    step = AppliedTrimStep(step="names", on="tools", component="tools_context", before=50, after=5)
    await story.append_events(build_opened(), build_submitted(1, "one"))
    await story.append_events(
        build_assembled(1, "1.1", build_condensed_tools(5, saved=45), steps=(step,))
    )
    (call,) = await read_call_growth(store, story)
    assert call.optimizations == {"names": 45}


async def test_hit_rate_is_the_share_of_retrieving_calls_with_hits(
    store: ReadModelStore, story: StoredSession
) -> None:
    found = build_part("rag_context", tokens=20)
    nothing = build_part("rag_context", tokens=0, message=None)
    system = build_part("system", tokens=10)
    await story.append_events(
        build_opened(),
        build_submitted(1, "one"),
        *(build_assembled(1, f"1.{n}", system, found) for n in range(1, 4)),
        build_assembled(1, "1.4", system, nothing),
        build_assembled(1, "1.5", system, kind="plan"),
    )
    await fold_log(store, story.log)
    (group,) = await read_group_growth(store, "all")
    assert group.retrieval_hit_rate == 0.75
    rates = {
        each.key["kind"]: each.retrieval_hit_rate for each in await read_group_growth(store, "kind")
    }
    assert rates == {"plan": None, "reply": 0.75}


def build_first_use(*, calls: int) -> CacheUse:
    """Build the outcome of calls before which there was none of their kind."""
    return CacheUse(outcome="first", cause=None, calls=calls, tokens=0, cost=NO_COST)


async def test_token_growth_is_grouped_by_blueprint_profile_and_kind(
    store: ReadModelStore, story: StoredSession
) -> None:
    system, history = build_part("system", tokens=10), build_part("history", tokens=30, turns=1)
    plan = build_assembled(1, "1.1", system, history, kind="plan", profile="agent", steps=(TRIM,))
    reply = build_assembled(1, "1.2", system, profile="agent")
    await story.append_events(build_opened(), build_submitted(1, "one"), plan, reply)
    await fold_log(store, story.log)
    both = {"history": 30, "system": 20}
    together = GroupGrowth(
        key={},
        calls=2,
        tokens=50,
        prompt_sizes=PromptSizes(p10=10, p50=10, p95=40),
        savings=7,
        cut_calls=1,
        components=both,
        cut_turns=0,
        rules=(RuleSavings("drop_oldest_pairs", calls=1, tokens=7),),
        caches=(build_first_use(calls=2),),
    )
    assert await read_group_growth(store, "all") == [together]
    assert await read_group_growth(store, "blueprint") == [
        replace(together, key={"blueprint": "assistant"})
    ]
    assert [each.key for each in await read_group_growth(store, "profile")] == [
        {"profile": "agent"}
    ]
    assert await read_group_growth(store, "kind") == [
        GroupGrowth(
            key={"kind": "plan"},
            calls=1,
            tokens=40,
            prompt_sizes=PromptSizes(p10=40, p50=40, p95=40),
            savings=7,
            cut_calls=1,
            components={"history": 30, "system": 10},
            cut_turns=0,
            rules=together.rules,
            caches=(build_first_use(calls=1),),
        ),
        GroupGrowth(
            key={"kind": "reply"},
            calls=1,
            tokens=10,
            prompt_sizes=PromptSizes(p10=10, p50=10, p95=10),
            savings=0,
            components={"system": 10},
            cut_turns=0,
            caches=(build_first_use(calls=1),),
        ),
    ]
    assert await read_group_growth(store, "all", since=datetime(2030, 1, 1, tzinfo=UTC)) == []


async def test_rules_of_a_group_are_summed_over_its_calls(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(
        build_opened(),
        build_submitted(1, "one"),
        build_assembled(1, "1.1", build_condensed_tools(5, saved=45), steps=(TRIM,)),
        build_assembled(1, "1.2", build_condensed_tools(5, saved=90)),
        build_assembled(1, "1.3", build_part("system", tokens=10), kind="plan"),
    )
    await fold_log(store, story.log)
    plan, reply = await read_group_growth(store, "kind")
    assert plan.rules == ()
    assert reply.rules == (
        RuleSavings("names", calls=2, tokens=135),
        RuleSavings("drop_oldest_pairs", calls=1, tokens=7),
    )


async def test_prompts_that_differ_from_those_before_them_are_summed_by_layer(
    store: ReadModelStore, story: StoredSession
) -> None:
    def follow(call: str, tokens: int, ended_by: str | None) -> CachePrefix:
        return CachePrefix(call=call, messages=1, tokens=tokens, ended_by=ended_by)

    system = build_part("system", tokens=100)
    await story.append_events(
        build_opened(),
        build_submitted(1, "one"),
        build_assembled(1, "1.1", system),
        build_assembled(1, "1.2", system, system, prefix=follow("1.1", 100, None)),
        build_assembled(1, "1.3", system, prefix=follow("1.2", 60, "history")),
        build_assembled(1, "1.4", system, prefix=follow("1.3", 90, "history")),
        build_assembled(1, "1.5", system, prefix=follow("1.4", 0, "persona")),
        # A counter that was corrected in between counts fewer tokens in the same prompt.
        build_assembled(1, "1.6", system, prefix=follow("1.5", 110, "input")),
    )
    calls = await read_call_growth(store, story)
    assert [(each.prefix_call, each.prefix_tokens, each.prefix_ended_by) for each in calls[:3]] == [
        (None, None, None),
        ("1.1", 100, None),
        ("1.2", 60, "history"),
    ]
    (group,) = await read_group_growth(store, "all")
    assert group.prefix_breaks == (
        PrefixBreaks("history", calls=2, tokens=140 + 10),
        PrefixBreaks("persona", calls=1, tokens=100),
        PrefixBreaks("input", calls=1, tokens=0),
    )


async def test_group_cost_sums_its_attempts_and_counts_unpriced_calls(
    store: ReadModelStore, story: StoredSession
) -> None:
    await story.append_events(build_opened(), build_submitted(1, "one"), build_started(1, 1))
    await story.append_events(build_assembled(1, "1.1"))
    await story.append_events(
        build_ended(1, 1, tokens=None, micro_dollars=None), build_started(1, 2)
    )
    await story.append_events(build_ended(1, 2, tokens=7, micro_dollars=21))
    await fold_log(store, story.log)
    (group,) = await read_group_growth(store, "model")
    assert group.cost == CostTotal(21, guessed=False, unpriced_calls=1)


async def test_calls_are_grouped_by_their_time_and_by_the_version_they_were_made_under(
    store: ReadModelStore, story: StoredSession
) -> None:
    system = build_part("system", tokens=10)
    story.at = datetime(2026, 3, 1, 22, 30, tzinfo=UTC)
    await story.append_events(build_opened("desk"), build_submitted(1, "one"))
    await story.append_events(build_assembled(1, "1.1", system))
    story.at += timedelta(hours=1)
    await story.append_events(build_assembled(1, "1.2", system, system))
    first, second = (
        BlueprintRef(name="desk", version=number, digest=compute_digest(str(number)))
        for number in (1, 2)
    )
    await story.append_events(
        BlueprintMoved(before=first, blueprint=second, attributes={}, reach=0)
    )
    story.at += timedelta(hours=1)
    await story.append_events(build_assembled(1, "1.3", system, kind="plan"))
    await fold_log(store, story.log)

    by_version = await read_group_growth(store, "version")
    assert [(each.key["version"], each.calls, each.tokens) for each in by_version] == [
        ("desk v1", 2, 30),
        ("desk v2", 1, 10),
    ]
    by_hour = await read_group_growth(store, "all", "hour")
    assert [(each.at, each.tokens) for each in by_hour] == [
        ("2026-03-01T22:00:00Z", 10),
        ("2026-03-01T23:00:00Z", 20),
        ("2026-03-02T00:00:00Z", 10),
    ]
    by_both = await read_group_growth(store, "version", "day")
    assert [(each.at, each.key["version"], each.calls) for each in by_both] == [
        ("2026-03-01T00:00:00Z", "desk v1", 2),
        ("2026-03-02T00:00:00Z", "desk v2", 1),
    ]
    assert [each.components for each in by_both] == [{"system": 30}, {"system": 10}]


async def test_growth_counts_the_calls_that_meet_every_condition(
    store: ReadModelStore, story: StoredSession
) -> None:
    system = build_part("system", tokens=10)
    await story.append_events(build_opened("desk"), build_submitted(1, "one"))
    for number, kind in enumerate(("reply", "plan", "reply"), 1):
        await story.append_events(build_assembled(1, f"1.{number}", system, kind=kind))
    second = story.at - timedelta(seconds=1)
    other = StoredSession(log=story.log, session="other")
    await other.append_events(build_opened("shop"), build_submitted(1, "one"))
    await other.append_events(build_assembled(1, "1.1", system))
    await fold_log(store, story.log)

    async def count(**conditions: Any) -> int:  # noqa: ANN401 - the filter's own
        return sum(each.calls for each in await read_group_growth(store, "all", **conditions))

    assert await count() == 4
    assert await count(blueprint="desk") == 3
    assert await count(blueprint="desk", kind="reply") == 2
    assert await count(blueprint="desk", since=second) == 2
    assert await count(blueprint="desk", until=second) == 1
    assert await count(session="other", blueprint="desk") == 0
    assert await count(model="nobody's") == 0
    assert await count(profile="\0") == 0
    async with store.open_reader() as connection:
        calls = await list_call_growth(connection, "t", "s", GrowthFilter(kind="plan"))
    assert [each.call for each in calls] == ["1.2"]


async def test_too_many_groups_are_refused(
    store: ReadModelStore, story: StoredSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_growth, "MAX_GROWTH_GROUPS", 1)
    await story.append_events(build_opened(), build_submitted(1, "one"))
    await story.append_events(build_assembled(1, "1.1", build_part("system", tokens=1)))
    await fold_log(store, story.log)
    assert len(await read_group_growth(store, "kind")) == 1
    await story.append_events(
        build_assembled(1, "1.2", build_part("system", tokens=1), kind="plan")
    )
    await fold_log(store, story.log)
    with pytest.raises(Refused, match="more than 1 groups"):
        await read_group_growth(store, "kind")
