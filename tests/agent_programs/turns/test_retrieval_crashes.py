"""A worker dies before or after each append of a turn that retrieves; another takes over."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from tests.agent_programs.agent_harness import AgentHarness, build_agent_blueprint
from tests.agent_programs.turns.test_turn_crashes import WHEN, run_crashing_turn
from tests.support.generators.event_samples import build_samples
from tests.support.knowledge.fixed_search import FixedSearch, build_found
from tests.support.sessions.puppet_model import PuppetModel
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.retrieval_events import KnowledgeRetrieved
from turnlog.events.model.turn_events import TurnCompleted, TurnFailed
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.session.commands import RecordRetrieval
from turnlog.projections.session.state import SessionState
from turnlog.projections.testing import claim_turn, get_attempt, given, open_session, submit_turn

APPENDS = 4
"""The claim, the retrieval, the prompt and the reply."""


def build_knowing_blueprint(**settings: Any) -> Blueprint:  # noqa: ANN401 - pieces of a blueprint
    """Return a blueprint that answers from documents."""
    return build_agent_blueprint(
        layers={"documents": {"retrieval": "documents"}},
        calls={"answer": {"messages": [{"system": ["documents"]}, {"user": ["input"]}]}},
        history={},
        retrieval={"documents": {"collections": "knowledge", **settings}},
        profiles={"agent": {"default": True, "program": "knowledge", "call": "answer"}},
    )


class AnsweringModel(PuppetModel):
    """A model that gives one answer, however often it is asked."""

    def __post_init__(self) -> None:
        self.scripts = [["Berth 4."], ["Berth 4."]]


async def open_knowing_session(**settings: Any) -> tuple[AgentHarness, FixedSearch]:  # noqa: ANN401
    """Open a session whose workers know one document."""
    harness = AgentHarness(kind=build_knowing_blueprint(**settings))
    found = build_found("berths", "Berth 4 is free.", 0.9, collection="knowledge")
    harness.house.knowledge = search = FixedSearch([found])
    return await harness.open_session(), search


@pytest.mark.parametrize("at", range(1, APPENDS + 1))
@pytest.mark.parametrize("when", WHEN)
async def test_recorded_retrieval_is_never_repeated(
    at: int, when: Literal["before", "after"]
) -> None:
    harness, search = await open_knowing_session()
    assert await run_crashing_turn(harness, at, when, AnsweringModel)
    assert len(harness.list_events(KnowledgeRetrieved)) == 1
    assert len(harness.list_events(ContextAssembled)) == 1
    assert len(harness.list_events(TurnCompleted)) == 1
    assert len(search.requests) == (2 if (at, when) == (2, "before") else 1)
    names = [type(each.event) for each in harness.house.list_events()]
    assert names.index(KnowledgeRetrieved) < names.index(ContextAssembled)


async def test_crash_points_cover_every_append_of_a_turn_that_retrieves() -> None:
    harness, _ = await open_knowing_session()
    assert not await run_crashing_turn(harness, APPENDS + 1, "before", AnsweringModel)


@pytest.mark.parametrize("when", WHEN)
async def test_turn_refused_without_documents_fails_once_after_takeover(
    when: Literal["before", "after"],
) -> None:
    harness, search = await open_knowing_session(nothing_found="refuse", min_score=0.95)
    assert await run_crashing_turn(harness, 2, when, AnsweringModel)
    (failed,) = harness.list_events(TurnFailed)
    assert (failed.code, failed.retryable) == ("nothing-found", False)
    assert len(harness.list_events(KnowledgeRetrieved)) == 1
    assert len(search.requests) == (2 if when == "before" else 1)
    assert harness.list_events(ContextAssembled) == []


def test_recording_a_retrieval_twice_appends_no_event() -> None:
    sample = build_samples()["knowledge-retrieved"]
    assert isinstance(sample, KnowledgeRetrieved)
    retrieved = sample.model_copy(update={"turn": 1, "call": "1.1"})

    def record(state: SessionState) -> RecordRetrieval:
        return RecordRetrieval(get_attempt(state), retrieved)

    claimed = given(open_session(), submit_turn("Which berth?"), claim_turn())
    claimed.when(record).then_names("knowledge-retrieved")
    claimed.apply_steps(record).when(record).then_names()
