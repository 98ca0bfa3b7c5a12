"""A worker's search is as new as the library was when it was asked."""

from __future__ import annotations

import pytest

from tests.support.knowledge.fixed_search import FixedSearch, build_found
from tests.support.knowledge.knowledge_harness import KnowledgeHarness
from turnlog.events.errors import Refused
from turnlog.projections.knowledge.knowledge_inputs import EntryInput
from turnlog.projections.knowledge.search_port import IndexPositions, SearchRequest
from turnlog.services.knowledge.current_search import CurrentKnowledgeSearch

CASE = EntryInput(id="late", text="Compare the times.", kind="case", title="Late ships")


async def test_search_waits_for_the_last_change_and_refuses_unknown_collections() -> None:
    knowledge = KnowledgeHarness()
    index = FixedSearch([build_found("late", "Compare the times.", 0.9)])
    current = CurrentKnowledgeSearch(knowledge.log, index)
    votes = IndexPositions(votes=5)
    request = SearchRequest(
        tenant=knowledge.tenant, collections=("champion",), text="late ships", min_positions=votes
    )
    with pytest.raises(Refused) as refusal:
        await current.search(request)
    assert (refusal.value.code, index.requests) == ("unknown-collection", [])
    await knowledge.put_entries("champion", CASE)
    await knowledge.put_entries("champion", EntryInput(id="early", text="Compare."))
    assert [hit.entry_id for hit in (await current.search(request)).hits] == ["late"]
    (asked,) = index.requests
    assert asked.min_positions == IndexPositions(knowledge=2, votes=5)
