"""A worker dies before or after each append of a turn whose queries a model writes."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from types import MappingProxyType
from typing import Literal

import pytest

from tests.agent_programs.agent_harness import AgentHarness
from tests.agent_programs.turns.test_retrieval_crashes import build_knowing_blueprint
from tests.agent_programs.turns.test_turn_crashes import WHEN, run_crashing_turn
from tests.support.knowledge.fixed_search import FixedSearch, build_found
from tests.support.sessions.puppet_model import PuppetModel
from turnlog.events.model.call_events import CallCompleted, ContextAssembled
from turnlog.events.model.retrieval_events import KnowledgeRetrieved, QueriesRequested
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.services.worker.model.model_types import (
    ModelDelta,
    ModelRequest,
)

APPENDS = 7
"""The claim, the request of queries, their prompt, the queries, the retrieval, prompt and reply."""


def build_querying_blueprint(
    prompt: Mapping[str, str] = MappingProxyType({"text": "Write queries."}),
    k: int = 3,
    at_most: int = 5,
) -> Blueprint:
    """Return a blueprint that answers from documents, for which a model writes the queries."""
    knowing = build_knowing_blueprint().model_dump(by_alias=True, exclude_unset=True)
    call = {"messages": [{"system": ["write_queries"]}, {"user": ["input"]}]}
    return Blueprint.model_validate(
        {
            **knowing,
            "layers": {**knowing["layers"], "write_queries": dict(prompt)},
            "calls": {**knowing["calls"], "query": call},
            "retrieval": {
                "documents": {
                    "collections": "knowledge",
                    "k": k,
                    "queries": {"call": "query", "at_most": at_most},
                }
            },
        }
    )


class QueryingModel(PuppetModel):
    """A model that writes queries when the prompt asks for them, and replies otherwise."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """See `Model.stream`."""
        is_query_request = request.messages[0]["content"] == "Write queries."
        self.scripts = [["free berths\nfees" if is_query_request else "Berth 4."]]
        async for each in super().stream(request):
            yield each


async def open_querying_session() -> tuple[AgentHarness, FixedSearch]:
    """Open a session whose workers know one document."""
    harness = AgentHarness(kind=build_querying_blueprint())
    found = build_found("berths", "Berth 4 is free.", 0.9, collection="knowledge")
    harness.house.knowledge = search = FixedSearch([found])
    return await harness.open_session(), search


@pytest.mark.parametrize("at", range(1, APPENDS + 1))
@pytest.mark.parametrize("when", WHEN)
async def test_recorded_queries_are_searched_for_and_never_written_twice(
    at: int, when: Literal["before", "after"]
) -> None:
    harness, search = await open_querying_session()
    assert await run_crashing_turn(harness, at, when, QueryingModel)
    assert len(harness.list_events(QueriesRequested)) == 1
    prompted = Counter(each.call for each in harness.list_events(ContextAssembled))
    assert prompted == Counter(["1.1", "1.2"])
    (written,) = [each for each in harness.list_events(CallCompleted) if each.text]
    assert written.call == "1.1"
    (retrieved,) = harness.list_events(KnowledgeRetrieved)
    assert (retrieved.origin, retrieved.query_call) == ("call", "1.1")
    assert {each.text for each in search.requests} == {"free berths", "fees"}
    assert len(harness.list_events(TurnCompleted)) == 1
    if (at, when) == (4, "after") or at in {5, 6}:
        requests = [each.messages[0]["content"] for each in harness.house.model.requests]
        assert requests.count("Write queries.") == 1


async def test_crash_points_cover_every_append_of_a_turn_with_written_queries() -> None:
    harness, _ = await open_querying_session()
    assert not await run_crashing_turn(harness, APPENDS + 1, "before", QueryingModel)
