"""The token ledger: the tokens of each component in each call, and what reduced them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.projections.store.folding import fold_log
from tests.projections.store.histories import Story, assembled, opened, part, submitted
from turnlog.events.log.memory import MemoryLog
from turnlog.events.manifest import Part, StepTaken
from turnlog.projections.store.engine import Store
from turnlog.projections.store.growth import GroupBy, of_calls, of_groups
from turnlog.projections.store.rows import CallGrowth, ComponentRow, GroupGrowth

CUT = StepTaken(step="drop_oldest_pairs", on="chat", component="history", before=90, after=30)
TRIM = StepTaken(step="drop_oldest_pairs", on="chat", before=50, after=43)


@pytest.fixture
def story() -> Story:
    return Story(MemoryLog())


def named(tokens: int, saved: int) -> Part:
    """Return a tools part that only names its tools."""
    tools = part("tools_context", tokens=tokens)
    return tools.model_copy(update={"treatment": "condensed", "rule": "names", "saved": saved})


async def calls(store: Store, story: Story) -> tuple[CallGrowth, ...]:
    await fold_log(store, story.log)
    async with store.reading() as connection:
        return await of_calls(connection, "t", "s")


async def groups(store: Store, by: GroupBy, since: datetime | None = None) -> list[GroupGrowth]:
    async with store.reading() as connection:
        return list(await of_groups(connection, "t", by, since))


async def test_each_component_of_each_call_is_counted(store: Store, story: Story) -> None:
    cut = part("history", tokens=0, message=None, turns=3)
    held = part("history", tokens=30, message=1, turns=2)
    system = (part("system", tokens=9), part("system", tokens=4))
    await story.tell(opened(), submitted(1, "one"), assembled(1, "1.1", *system, cut, held))
    (call,) = await calls(store, story)
    assert call.components == (
        ComponentRow("system", 2, 13, 52, 0, 0),
        ComponentRow("history", 1, 30, 120, 2, 3),
    )
    assert (call.tokens, call.savings, call.optimizations) == (43, 0, {})


async def test_what_was_saved_is_told_rule_by_rule(store: Store, story: Story) -> None:
    await story.tell(opened(), submitted(1, "one"))
    made = assembled(1, "1.1", named(5, saved=45), steps=(CUT, TRIM), profile="agent")
    await story.tell(made)
    (call,) = await calls(store, story)
    assert call.optimizations == {"drop_oldest_pairs": 67, "names": 45}
    assert (call.savings, call.profile) == (112, "agent")


async def test_a_step_that_condensed_something_is_counted_once(store: Store, story: Story) -> None:
    step = StepTaken(step="names", on="tools", component="tools_context", before=50, after=5)
    await story.tell(opened(), submitted(1, "one"))
    await story.tell(assembled(1, "1.1", named(5, saved=45), steps=(step,)))
    (call,) = await calls(store, story)
    assert call.optimizations == {"names": 45}


async def test_calls_are_put_together_by_what_they_have_in_common(
    store: Store, story: Story
) -> None:
    system, said = part("system", tokens=10), part("history", tokens=30, turns=1)
    plan = assembled(1, "1.1", system, said, kind="plan", profile="agent", steps=(TRIM,))
    reply = assembled(1, "1.2", system, profile="agent")
    await story.tell(opened(), submitted(1, "one"), plan, reply)
    await fold_log(store, story.log)
    both = {"history": 30, "system": 20}
    assert await groups(store, "all") == [GroupGrowth(None, 2, 50, 7, both, 0)]
    assert await groups(store, "blueprint") == [GroupGrowth("assistant", 2, 50, 7, both, 0)]
    assert [each.group for each in await groups(store, "profile")] == ["agent"]
    assert await groups(store, "kind") == [
        GroupGrowth("plan", 1, 40, 7, {"history": 30, "system": 10}, 0),
        GroupGrowth("reply", 1, 10, 0, {"system": 10}, 0),
    ]
    assert await groups(store, "all", since=datetime(2030, 1, 1, tzinfo=UTC)) == []
