"""A turn that searches for several queries, over HTTP."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.agent_programs.agent_service import AgentService, answer_with_text
from tests.agent_programs.turns.test_retrieval_crashes import build_knowing_blueprint
from tests.support.knowledge.fixed_search import FixedSearch, build_found
from turnlog.events.model.retrieval_events import KnowledgeRetrieved
from turnlog.projections.knowledge.search_port import SearchRequest, SearchResult

pytestmark = pytest.mark.asyncio(loop_scope="module")

DIFF = "--- a\n+++ b\n@@ -1 +1 @@\n+sleep\n@@ -9 +9 @@\n+float"


@dataclass
class WordSearch(FixedSearch):
    """Finds the entries whose id is in the query, and then all others."""

    async def search(self, request: SearchRequest) -> SearchResult:
        """See `KnowledgeSearch`."""
        found = await FixedSearch.search(self, request)
        hits = sorted(found.hits, key=lambda hit: hit.entry_id not in request.text)
        return SearchResult(tuple(hits), found.index_version, found.embedder, found.positions)


async def test_each_hunk_of_a_diff_is_searched_for_and_names_what_it_found(
    platform: AgentService,
) -> None:
    entries = [
        build_found(name, f"About {name}.", confidence, collection="knowledge")
        for name, confidence in (("general", 0.9), ("sleep", 0.5), ("float", 0.4))
    ]
    platform.worker.knowledge = search = WordSearch(entries)
    session = await platform.open_session(build_knowing_blueprint(k=2, queries={"pattern": "^@@ "}))
    await platform.complete_turn(session, answer_with_text("Two."), text=DIFF)
    sought = ["@@ -1 +1 @@\n+sleep", "@@ -9 +9 @@\n+float"]
    assert [each.text for each in search.requests] == sought
    (retrieved,) = await platform.load_events(session, KnowledgeRetrieved)
    assert retrieved.origin == "pattern"
    assert [each.model_dump()["text"] for each in retrieved.queries] == sought
    assert [each.entry for each in retrieved.taken] == ["float", "sleep"]
    best = {
        each.entry: min(each.found_by, key=lambda found: found.rank).query
        for each in retrieved.candidates
    }
    assert (best["sleep"], best["float"]) == (1, 2)
    system = platform.get_request_texts(0)[0]
    assert "About sleep." in system
    assert "About float." in system
    assert "About general." not in system
    why = await platform.fetch_json(f"/v1/sessions/{session}/calls/1.1/why")
    queries = [part["query"] for part in why["parts"] if part.get("query")]
    assert queries == [sought[1], sought[0]]
    (untaken,) = why["untaken"]
    assert (untaken["entry"], untaken["outcome"]) == ("general", "rank")
    assert (untaken["score"], untaken["confidence"]) == (0.0161, 0.9)
    assert await platform.find_unreproducible_calls() == []
