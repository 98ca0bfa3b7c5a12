"""U19 on the shipped blueprint: the log names the votes that decide what a turn retrieves."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from pydantic import TypeAdapter
from rich.console import Console, RenderableType

from tests.agent_programs.agent_service import AgentService, answer_with_plan, answer_with_text
from tests.agent_programs.shipped.test_summary_steps import copy_uderia
from tests.services.gateway.gateway_service import NO_TRACING
from tests.support.knowledge.fixed_search import FixedSearch, build_found
from turnlog.events.content import PlainText
from turnlog.events.model.retrieval_events import (
    CandidateVote,
    EntryFeedbackGiven,
    KnowledgeRetrieved,
)
from turnlog.projections.audit.diff.call_diff import CallDiff
from turnlog.projections.audit.explain.turn_explanation import TurnExplanation
from turnlog.services.cli.views.diff_view import render_diff
from turnlog.services.cli.views.why_view import render_untaken_entries
from turnlog.services.projector.log_fold import LogFolder, rebuild_rows

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUESTION = "How many herons nest in the harbour?"

HERONS = ("heron-count", "heron-nests")
"""Cases that the question finds with more than the least confidence of the blueprint."""


async def import_cases(platform: AgentService) -> None:
    """Import the cases about herons, and let the worker search the real index."""
    entries = [
        {"id": name, "kind": "case", "title": QUESTION, "text": f"Call `{name}`."}
        for name in HERONS
    ]
    form = {"collection": "champion", "entries": entries}
    done = await platform.http.post("/v1/knowledge/import", json=form)
    assert done.status_code == 200, done.text
    platform.worker.knowledge = platform.gateway.parts.knowledge_search


async def open_working_session(platform: AgentService, blueprint: str = "uderia") -> str:
    return await platform.open_shipped_session(blueprint, profile="tool_enabled")


async def retrieve(platform: AgentService, session: str) -> KnowledgeRetrieved:
    """Run a turn that asks about herons, and return what it retrieved."""
    answers = (answer_with_plan(), answer_with_text("Two."))
    await platform.complete_turn(session, *answers, text=QUESTION)
    return (await platform.load_events(session, KnowledgeRetrieved))[-1]


async def vote(platform: AgentService, session: str, turn: int, value: str, **form: Any) -> int:  # noqa: ANN401
    """Vote on a turn, and return the sequence of the vote's event."""
    path = f"/v1/sessions/{session}/turns/{turn}/feedback"
    done = await platform.http.post(path, json={"vote": value, **form})
    assert done.status_code == 200, done.text
    return int(done.json()["sequence"])


async def list_retrieval_events(platform: AgentService, session: str) -> list[int]:
    """Return the sequences of a session's retrievals."""
    events = await platform.load_recorded_events(session)
    return [each.sequence for each in events if isinstance(each.event, KnowledgeRetrieved)]


def print_view(view: RenderableType) -> str:
    """Return a view as a wide terminal shows it."""
    console = Console(file=StringIO(), width=200)
    with console.capture() as captured:
        console.print(view)
    return captured.get()


def list_outcomes(retrieved: KnowledgeRetrieved) -> dict[str, str]:
    return {each.entry: each.outcome for each in retrieved.candidates if each.entry in HERONS}


async def fetch_voted_causes(
    platform: AgentService, session: str, before: str, after: str
) -> list[dict[str, Any]]:
    """Return the votes that a difference between two calls names for the cases."""
    diff = await platform.fetch_json(f"/v1/sessions/{session}/calls/{before}/diff/{after}")
    return [
        votes
        for change in diff["changes"]
        if change["layer"] == "cases"
        for cause in change["because"]
        if cause["what"] == "voted"
        for votes in cause["votes"]
    ]


async def test_why_and_diff_name_the_votes_that_left_cases_out_and_let_them_in_again(
    platform: AgentService,
) -> None:
    await import_cases(platform)
    judged = await open_working_session(platform)
    assert list_outcomes(await retrieve(platform, judged)) == dict.fromkeys(HERONS, "taken")
    down = await vote(platform, judged, 1, "down")
    session = await open_working_session(platform)
    found = await retrieve(platform, session)
    assert list_outcomes(found) == dict.fromkeys(HERONS, "feedback")
    named = {"session": judged, "sequence": down, "vote": -1}
    found_at = (await list_retrieval_events(platform, session))[-1]
    why = await platform.fetch_json(f"/v1/sessions/{session}/calls/1.1/why")
    explained = TypeAdapter(TurnExplanation).validate_python(why)
    shown = print_view(render_untaken_entries(explained.untaken))
    assert f"votes -1 · event {found_at}" in shown
    assert f"voted -1 by session {judged}, event {down}" in shown
    untaken = {each["entry"]: each for each in why["untaken"] if each["entry"] in HERONS}
    assert [untaken[each]["votes"] for each in HERONS] == [[named], [named]]
    # The vote is taken back: the log names that too, since it let the cases in again.
    back = await vote(platform, judged, 1, "none")
    assert list_outcomes(await retrieve(platform, session)) == dict.fromkeys(HERONS, "taken")
    why = await platform.fetch_json(f"/v1/sessions/{session}/calls/2.1/why")
    restored = {"session": judged, "sequence": back, "vote": 0}
    cases = [each for each in why["parts"] if each["part"]["layer"] == "cases"]
    assert [each["votes"] for each in cases if each["feedback"] is not None] == [[restored]] * 2
    causes = await fetch_voted_causes(platform, session, "1.1", "2.1")
    assert [(each["feedback"], each["votes"]) for each in causes] == [(0, [restored])] * 2
    assert {each["entry"] for each in causes} == set(HERONS)
    across = await platform.fetch_json(f"/v1/sessions/{judged}/calls/1.1/diff/1.1", other=session)
    shown = print_view(render_diff(TypeAdapter(CallDiff).validate_python(across)))
    assert f"champion/{HERONS[0]} -1 in event {found_at}" in shown
    assert shown.count(f"voted -1 by session {judged}, event {down}") == 2


async def test_diff_names_the_votes_on_the_entry_whose_place_another_one_took(
    platform: AgentService,
) -> None:
    name = "uderia-single"
    setting = "    min_efficiency: 0.5\n"
    copy_uderia(platform.folder, name, (setting, f"{setting}    k: 1\n"))
    best, next_best = build_found("best", "Ask.", 0.8), build_found("next", "Wait.", 0.7)
    platform.worker.knowledge = search = FixedSearch((best, next_best))
    session = await open_working_session(platform, name)
    await retrieve(platform, session)
    given = CandidateVote(session="s-1", sequence=12, vote=-1)
    disliked = build_found("best", "Ask.", 0.8, votes=(given,))
    search.hits = (disliked, next_best)
    await retrieve(platform, session)
    causes = await fetch_voted_causes(platform, session, "1.1", "2.1")
    assert [(each["entry"], each["votes"]) for each in causes] == [
        ("best", [given.model_dump()])
    ] * 2
    # Another entry that is less near takes no place by votes.
    search.hits = (build_found("other", "Ask.", 0.9), disliked, next_best)
    await retrieve(platform, session)
    assert await fetch_voted_causes(platform, session, "2.1", "3.1") == []


def name_entry(entry: str, **more: object) -> dict[str, object]:
    return {"collection": "champion", "entry": entry, **more}


async def test_vote_on_one_entry_leaves_only_that_one_out_of_the_next_retrieval(
    platform: AgentService,
) -> None:
    await import_cases(platform)
    session = await open_working_session(platform)
    first = await retrieve(platform, session)
    assert list_outcomes(first) == dict.fromkeys(HERONS, "taken")
    revision = first.taken[0].revision
    # The search waits for it, as for a vote on the turn, so the very next turn counts it.
    form = name_entry(HERONS[0], revision=revision)
    down = await vote(platform, session, 1, "down", entry=form)
    assert list_outcomes(await retrieve(platform, session)) == {
        HERONS[0]: "feedback",
        HERONS[1]: "taken",
    }
    (given,) = await platform.load_events(session, EntryFeedbackGiven)
    assert (given.turn, given.entry, given.revision) == (1, HERONS[0], revision)
    named = {"session": session, "sequence": down, "vote": -1}
    why = await platform.fetch_json(f"/v1/sessions/{session}/calls/2.1/why")
    untaken = {each["entry"]: each["votes"] for each in why["untaken"]}
    assert untaken[HERONS[0]][0] == named
    causes = await fetch_voted_causes(platform, session, "1.1", "2.1")
    assert [(each["entry"], each["votes"][0]) for each in causes] == [(HERONS[0], named)]
    # The voted turn shows it too.
    why = await platform.fetch_json(f"/v1/sessions/{session}/calls/1.1/why")
    effects = [(each["by"]["sequence"], each["what"]) for each in why["consequences"]]
    assert (down, f"champion/{HERONS[0]} was voted down") in effects
    history = await platform.fetch_json(f"/v1/sessions/{session}/history")
    shown = {"vote": "down", "sequence": down, "collection": "champion", "entry": HERONS[0]}
    assert [each["votes"] for each in history["turns"]] == [[shown], []]
    await vote(platform, session, 1, "none", entry=name_entry(HERONS[0]))
    history = await platform.fetch_json(f"/v1/sessions/{session}/history")
    assert [each["votes"] for each in history["turns"]] == [[], []]
    assert list_outcomes(await retrieve(platform, session)) == dict.fromkeys(HERONS, "taken")


async def test_vote_on_an_entry_counts_in_place_of_the_vote_on_its_turn(
    platform: AgentService,
) -> None:
    await import_cases(platform)
    session = await open_working_session(platform)
    before = {each.entry: each.feedback for each in (await retrieve(platform, session)).candidates}
    await vote(platform, session, 1, "down")
    await vote(platform, session, 1, "down", entry=name_entry(HERONS[0]))
    await vote(platform, session, 1, "up", entry=name_entry(HERONS[0]))
    again = await retrieve(platform, session)
    after = {each.entry: each.feedback - before[each.entry] for each in again.candidates}
    assert [after[each] for each in HERONS] == [1, -1]
    await vote(platform, session, 1, "none", entry=name_entry(HERONS[0]))
    again = await retrieve(platform, session)
    after = {each.entry: each.feedback - before[each.entry] for each in again.candidates}
    assert [after[each] for each in HERONS] == [-1, -1]
    # A fork has the votes in its history and gives none of them again.
    head = (await platform.load_recorded_events(session))[-1].sequence
    forked = await platform.http.post(f"/v1/sessions/{session}/fork", json={"at": head})
    assert forked.status_code == 201, forked.text
    fork = str(forked.json()["session"])
    platform.opened_sessions.append(fork)
    again = await retrieve(platform, fork)
    after = {each.entry: each.feedback - before[each.entry] for each in again.candidates}
    assert [after[each] for each in HERONS] == [-1, -1]
    # What a fork has copied may be judged in the fork.
    await vote(platform, fork, 1, "up", entry=name_entry(HERONS[0]))
    again = await retrieve(platform, fork)
    after = {each.entry: each.feedback - before[each.entry] for each in again.candidates}
    assert [after[each] for each in HERONS] == [0, -1]
    await vote(platform, session, 1, "none")
    await vote(platform, fork, 1, "none", entry=name_entry(HERONS[0]))


@pytest.mark.parametrize(
    ("entry", "field", "fix"),
    [
        (name_entry("sk-secret"), "entry", "champion/heron-count, champion/heron-nests"),
        (name_entry(HERONS[0], collection="sk-secret"), "entry", "champion/heron-count"),
        (name_entry(HERONS[0], revision=2**53 - 1), "entry.revision", "send the revision"),
    ],
)
async def test_vote_on_what_the_turn_did_not_retrieve_is_refused_with_what_it_did(
    platform: AgentService, entry: dict[str, object], field: str, fix: str
) -> None:
    await import_cases(platform)
    session = await open_working_session(platform)
    await retrieve(platform, session)
    path = f"/v1/sessions/{session}/turns/1/feedback"
    refused = await platform.http.post(path, json={"vote": "down", "entry": entry})
    problem = refused.json()
    assert (refused.status_code, problem["code"], problem["field"]) == (422, "not-retrieved", field)
    assert fix in problem["fix"]
    assert "sk-secret" not in refused.text
    assert str(2**53 - 1) not in refused.text
    assert await platform.load_events(session, EntryFeedbackGiven) == []


async def test_refused_vote_on_an_entry_names_a_bounded_number_of_entries(
    platform: AgentService,
) -> None:
    name = "uderia-many"
    setting = "    min_efficiency: 0.5\n"
    copy_uderia(platform.folder, name, (setting, f"{setting}    k: 14\n"))
    hits = [build_found(f"e{n:02}", f"Text {n}.", 0.9) for n in range(14)]
    platform.worker.knowledge = search = FixedSearch(hits)
    session = await open_working_session(platform, name)
    await retrieve(platform, session)
    search.hits = ()
    await retrieve(platform, session)
    search.hits = (build_found("later", "Later.", 0.9),)
    await retrieve(platform, session)
    form = {"vote": "down", "entry": name_entry("later")}
    path = f"/v1/sessions/{session}/turns"
    refused = await platform.http.post(f"{path}/1/feedback", json=form)
    assert refused.json()["fix"].endswith("champion/e08, champion/e09 and 4 more")
    refused = await platform.http.post(f"{path}/2/feedback", json=form)
    assert refused.json()["detail"] == "turn 2 retrieved nothing"
    refused = await platform.http.post(f"{path}/9/feedback", json=form)
    assert (refused.status_code, refused.json()["code"]) == (404, "unknown-turn")


async def test_next_search_waits_for_a_vote_on_an_entry(platform: AgentService) -> None:
    hits = (build_found("yields", "First list the ships.", 0.7),)
    platform.worker.knowledge = search = FixedSearch(hits)
    session = await open_working_session(platform)
    await retrieve(platform, session)
    await vote(platform, session, 1, "down", entry=name_entry("yields"), comment="Too long.")
    *_, given = await platform.load_recorded_events(session)
    assert isinstance(given.event, EntryFeedbackGiven)
    assert given.event.comment == PlainText(text="Too long.")
    await retrieve(platform, await open_working_session(platform))
    assert search.requests[-1].min_positions.votes == given.stream_sequence


async def test_rebuilt_read_models_name_the_same_votes(platform: AgentService) -> None:
    await import_cases(platform)
    sessions = [await open_working_session(platform) for _ in range(3)]
    for session in sessions:
        await retrieve(platform, session)
    on_entry: dict[str, Any] = {"entry": name_entry(HERONS[0])}
    forms: list[dict[str, Any]] = [on_entry, {}, on_entry]
    for session, form in zip(sessions, forms, strict=True):
        await vote(platform, session, 1, "up", **form)
    session = await open_working_session(platform)
    before = await retrieve(platform, session)
    # The newest come first, whichever numbers their events have in their sessions.
    (judged,) = [each.votes for each in before.candidates if each.entry == HERONS[0]]
    assert [each.session for each in judged[:3]] == sessions[::-1]
    gateway = platform.gateway
    folder = LogFolder(
        log=platform.backend.log, store=gateway.store, tracing=NO_TRACING, tenant=gateway.tenant
    )
    assert await rebuild_rows(folder, lambda _position, _goal: None) is not None
    assert (await retrieve(platform, session)).candidates == before.candidates
    for judge, form in zip(sessions, forms, strict=True):
        await vote(platform, judge, 1, "none", **form)
