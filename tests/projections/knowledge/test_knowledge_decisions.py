"""What commands do to collections: add, edit, remove, import again; and what they refuse."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.knowledge.knowledge_harness import KnowledgeHarness
from turnlog.events.codec import CommandRef
from turnlog.events.content import compute_digest
from turnlog.events.errors import Refused
from turnlog.projections.knowledge.knowledge_inputs import EntryInput, PutEntries
from turnlog.projections.knowledge.knowledge_state import KnowledgeChanges, KnowledgeState
from turnlog.projections.knowledge.rank_fusion import compute_fused_scores

CASE = EntryInput(
    id="late", text="Compare the times.", kind="case", title="Late ships", efficiency=0.5
)


async def test_unchanged_entry_is_not_recorded_again() -> None:
    knowledge = KnowledgeHarness()
    added = await knowledge.put_entries("cases", CASE, replace(CASE, id="early"))
    assert added.changes == KnowledgeChanges(1, added=("late", "early"))
    again = await knowledge.put_entries("cases", CASE)
    assert again.changes == KnowledgeChanges(1)
    edited = await knowledge.put_entries("cases", replace(CASE, efficiency=0.75))
    assert edited.changes == KnowledgeChanges(2, edited=("late",))


async def test_import_removes_entries_that_are_no_longer_in_their_file() -> None:
    knowledge = KnowledgeHarness()
    parts = tuple(EntryInput(id=f"a:{n}", text=f"part {n}", source="a.md") for n in range(3))
    await knowledge.put_entries("docs", *parts, EntryInput(id="b", text="other", source="b.md"))
    command = PutEntries("docs", parts[:1], replace_sources=True)
    outcome = await knowledge.handle_command(command)
    assert outcome.changes.removed == ("a:1", "a:2")
    assert sorted((await knowledge.load_state()).collections["docs"]) == ["a:0", "b"]


async def test_a_collection_without_entries_does_not_exist() -> None:
    knowledge = KnowledgeHarness()
    await knowledge.put_entries("cases", CASE)
    assert (await knowledge.remove_entries("cases")).changes.removed == ("late",)
    assert (await knowledge.load_state()).collections == {}
    with pytest.raises(Refused, match="no collection 'cases'"):
        await knowledge.remove_entries("cases")


async def test_removal_with_an_unknown_entry_is_refused_and_removes_nothing() -> None:
    knowledge = KnowledgeHarness()
    await knowledge.put_entries("cases", CASE)
    with pytest.raises(Refused, match="has no entry 'lost'"):
        await knowledge.remove_entries("cases", "late", "lost")
    assert list((await knowledge.load_state()).collections["cases"]) == ["late"]


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        (replace(CASE, id="no spaces"), "id"),
        (replace(CASE, text=" \n"), "text"),
        (replace(CASE, text="a\0b"), "text"),
        (replace(CASE, text="é" * 16_001), "text"),
        (replace(CASE, title="x" * 301), "title"),
        (replace(CASE, tags=("x" * 1_001,)), "tags"),
        (replace(CASE, attributes={str(n): "" for n in range(33)}), "attributes"),
        (replace(CASE, efficiency=1.01), "efficiency"),
        (replace(CASE, efficiency=float("nan")), "efficiency"),
        (replace(CASE, kind="document"), "efficiency"),
    ],
)
async def test_invalid_entry_is_refused_with_its_field_and_nothing_is_stored(
    entry: EntryInput, field: str
) -> None:
    knowledge = KnowledgeHarness()
    with pytest.raises(Refused) as refusal:
        await knowledge.put_entries("cases", EntryInput(id="good", text="Good."), entry)
    assert refusal.value.field == f"entries.1.{field}"
    assert refusal.value.fix
    assert await knowledge.load_state() == KnowledgeState("t")


async def test_duplicate_id_and_invalid_collection_name_are_refused() -> None:
    knowledge = KnowledgeHarness()
    with pytest.raises(Refused, match="number 0 of this request has the same id"):
        await knowledge.put_entries("cases", CASE, CASE)
    with pytest.raises(Refused, match="not a name of a collection"):
        await knowledge.put_entries("My Cases", CASE)


async def test_repeated_command_returns_its_recorded_answer() -> None:
    knowledge = KnowledgeHarness()
    key = CommandRef("k", compute_digest("body"))
    command = PutEntries("cases", (CASE,))
    first = await knowledge.handle_command(command, key)
    await knowledge.remove_entries("cases")
    again = await knowledge.handle_command(command, key)
    assert again.changes == first.changes
    assert (await knowledge.load_state()).collections == {}


async def test_another_process_folds_the_same_state() -> None:
    knowledge = KnowledgeHarness()
    many = tuple(EntryInput(id=f"e{n}", text=f"text {n}") for n in range(120))
    outcome = await knowledge.put_entries("many", *many)
    assert (outcome.changes.sequence, len(outcome.changes.added)) == (3, 120)
    await knowledge.remove_entries("many", "e7")
    later = KnowledgeHarness(log=knowledge.log, blobs=knowledge.blobs)
    assert await later.load_state() == await knowledge.load_state()


def test_item_in_both_rankings_ranks_above_items_in_one() -> None:
    scores = compute_fused_scores(("a", "b"), ("b", "c"))
    assert sorted(scores, key=lambda each: -scores[each]) == ["b", "a", "c"]
    assert scores["b"] == 1 / 62 + 1 / 61
