"""U13, U15, U16 and U19 on the shipped blueprint: what a turn retrieves, and what it uses of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.agent_programs.shipped.test_summary_steps import copy_uderia
from tests.support.knowledge.fixed_search import FixedSearch, build_found
from tests.support.knowledge.indexed_knowledge import SHIPPED_EMBEDDER
from tests.support.knowledge.letter_embedder import LetterEmbedder
from turnlog.events.errors import Unavailable
from turnlog.events.model.retrieval_events import FeedbackGiven, KnowledgeRetrieved
from turnlog.projections.knowledge.default_reranker import FUSION_NAME
from turnlog.projections.knowledge.search_port import IndexPositions, SearchRequest, SearchResult
from turnlog.projections.store.engine import open_store
from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS
from turnlog.services.bundle import verifier
from turnlog.services.cli.knowledge.knowledge_actions import build_import_body
from turnlog.services.cli.knowledge.knowledge_files import read_knowledge_files
from turnlog.services.knowledge.embedders import CheckedEmbedder
from turnlog.services.knowledge.index_service import IndexedKnowledge
from turnlog.services.projector.knowledge_projector import KnowledgeProjector

pytestmark = pytest.mark.asyncio(loop_scope="module")

FULL_GUIDE = "How to choose the steps"

SHORT_GUIDE = "Adapt this pattern"

HEADER = "Adapt what fits this request; copy neither their names nor their figures."

LOOK_DESCRIPTION = "Looks for a thing."

KNOWLEDGE = SHIPPED_BLUEPRINTS / "uderia" / "knowledge"


def know(platform: AgentService, *hits: Any) -> FixedSearch:  # noqa: ANN401 - hits
    """Let the worker's knowledge consist of these entries, and return it."""
    platform.worker.knowledge = found = FixedSearch(hits)
    return found


async def open_working_session(platform: AgentService) -> str:
    return await platform.open_shipped_session("uderia", profile="tool_enabled")


async def run_planned_turn(platform: AgentService, session: str, text: str = "Which ships?") -> str:
    """Run a turn whose plan has no steps, and return the text of its plan's prompt."""
    before = len(platform.bodies)
    await platform.complete_turn(session, answer_with_plan(), answer_with_text("Two."), text=text)
    return "\n".join(platform.get_request_texts(before))


async def get_parts(platform: AgentService, session: str, call: str) -> list[dict[str, Any]]:
    return list((await platform.fetch_prompt(session, call))["manifest"]["parts"])


async def test_u13_confidence_above_085_lists_tools_by_name_and_requests_to_adapt_the_case(
    platform: AgentService,
) -> None:
    know(platform, build_found("yields", "First list the ships, then count them.", 0.86))
    session = await open_working_session(platform)
    prompt = await run_planned_turn(platform, session)
    assert SHORT_GUIDE in prompt
    assert FULL_GUIDE not in prompt
    assert "harbour_look" in prompt
    assert LOOK_DESCRIPTION not in prompt
    assert f"{HEADER}\n[1] yields\nFirst list the ships, then count them." in prompt
    parts = await get_parts(platform, session, "1.1")
    named = [each for each in parts if each["layer"] == "tools_text" and each.get("role")]
    assert [each["rule"] for each in named] == ["adapt cases 0.86 > 0.85"]
    (case,) = [each for each in parts if each["layer"] == "cases"]
    source = case["source"]
    assert (source["collection"], source["entry"], source["revision"]) == ("champion", "yields", 1)
    assert (source["score"], source["confidence"]) == (0.86, 0.86)
    assert case["component"] == "rag_context"
    why = await platform.fetch_json(f"/v1/sessions/{session}/calls/1.1/why")
    described = str(why)
    assert "adapt cases 0.86 > 0.85" in described
    assert "knowledge-retrieved" in described


async def test_u13_confidence_up_to_085_describes_tools_and_guide_in_full(
    platform: AgentService,
) -> None:
    know(platform, build_found("yields", "First list the ships.", 0.85))
    prompt = await run_planned_turn(platform, await open_working_session(platform))
    assert FULL_GUIDE in prompt
    assert SHORT_GUIDE not in prompt
    assert LOOK_DESCRIPTION in prompt
    assert "First list the ships." in prompt


async def test_u13_tools_only_named_while_adapting_are_described_in_the_next_turn(
    platform: AgentService,
) -> None:
    search = know(platform, build_found("yields", "First list the ships.", 0.9))
    session = await open_working_session(platform)
    assert LOOK_DESCRIPTION not in await run_planned_turn(platform, session)
    search.hits = ()
    assert LOOK_DESCRIPTION in await run_planned_turn(platform, session)
    assert LOOK_DESCRIPTION not in await run_planned_turn(platform, session)


async def test_u15_only_the_plan_includes_cases_and_the_query_is_the_turn_text(
    platform: AgentService,
) -> None:
    search = know(platform, build_found("yields", "First list the ships.", 0.7))
    session = await open_working_session(platform)
    await platform.complete_turn(
        session,
        answer_with_plan(("Look.", ["harbour_look"])),
        answer_with_tool_calls(("harbour_look", {})),
        answer_with_text("Many."),
        text="Which boats?",
    )
    plan, tactic, reply = ("\n".join(platform.get_request_texts(n)) for n in range(3))
    assert "First list the ships." in plan
    assert "First list the ships." not in tactic + reply
    (request,) = search.requests
    assert (request.text, request.collections) == ("Which boats?", ("champion",))
    (retrieved,) = await platform.load_events(session, KnowledgeRetrieved)
    assert retrieved.model_dump()["query"]["text"] == "Which boats?"
    talk = await platform.open_shipped_session("uderia")
    await platform.complete_turn(talk, answer_with_text("Yes."), text="Hello?")
    assert platform.list_offered_tools()[-1] == []
    assert len(search.requests) == 1


async def test_u19_cases_are_filtered_by_efficiency_and_feedback_and_outcomes_are_recorded(
    platform: AgentService,
) -> None:
    name = "uderia-choosy"
    if not (platform.folder / name).exists():
        setting = "    min_efficiency: 0.5\n"
        copy_uderia(platform.folder, name, (setting, f"{setting}    k: 1\n"))
    know(
        platform,
        build_found("slow", "Take the long way.", 0.8, efficiency=0.4),
        build_found("disliked", "Take the wrong way.", 0.79, feedback=-1),
        build_found("good", "Take the short way.", 0.78, efficiency=0.9, feedback=2),
        build_found("spare", "Take another way.", 0.77),
        build_found("far", "Bake a cake.", 0.59),
    )
    session = await platform.open_shipped_session(name, profile="tool_enabled")
    prompt = await run_planned_turn(platform, session)
    assert f"{HEADER}\n[1] good\nTake the short way." in prompt
    assert not any(text in prompt for text in ("long way", "wrong way", "another way", "cake"))
    (retrieved,) = await platform.load_events(session, KnowledgeRetrieved)
    outcomes = {each.entry: each.outcome for each in retrieved.candidates}
    assert outcomes == {
        "slow": "efficiency",
        "disliked": "feedback",
        "good": "taken",
        "spare": "rank",
        "far": "score",
    }
    assert retrieved.collections == ("champion",)
    assert (retrieved.limits.k, retrieved.limits.min_score) == (1, 0.6)
    assert (retrieved.index, retrieved.embedder) == ("fixed-1", "given-1")
    assert (retrieved.knowledge_position, retrieved.votes_position) == (7, 9)
    why = await platform.fetch_json(f"/v1/sessions/{session}/calls/1.1/why")
    votes = {
        each["part"]["layer"]: each["feedback"]
        for each in why["parts"]
        if each.get("feedback") is not None
    }
    assert votes == {"cases": 2}
    untaken = {each["entry"]: each["feedback"] for each in why["untaken"]}
    assert untaken == {"slow": 0, "disliked": -1, "spare": 0, "far": 0}


async def test_u19_shipped_cases_of_low_efficiency_are_filtered(platform: AgentService) -> None:
    know(
        platform,
        build_found("slow", "Take the long way.", 0.8, efficiency=0.49),
        build_found("good", "Take the short way.", 0.78, efficiency=0.5),
    )
    session = await platform.open_shipped_session("uderia", profile="tool_enabled")
    prompt = await run_planned_turn(platform, session)
    assert f"{HEADER}\n[1] good\nTake the short way." in prompt
    assert "long way" not in prompt


async def test_u17_charting_counts_for_conversations_and_coordinators(
    platform: AgentService,
) -> None:
    for profile in ("llm_only", "genie"):
        form = {"attributes": {"charting": True}, "profile": profile}
        session = await platform.open_shipped_session("uderia", **form)
        await platform.complete_turn(session, answer_with_text("Yes."), text="Hello?")
        prompt = await platform.fetch_prompt(session, "1.1")
        assert "\n# Charts\n" in prompt["messages"][0]["content"], profile


async def test_u16_rag_focused_answers_from_documents_only_within_2000_tokens(
    platform: AgentService,
) -> None:
    filler = "The harbour has berths. " * 140
    search = know(
        platform,
        *(
            build_found(f"doc-{n}", f"Berth {n}. {filler}", 0.9 - n / 10, collection="knowledge")
            for n in range(5)
        ),
        build_found("weak", "Nothing of use.", 0.1, collection="knowledge"),
    )
    session = await platform.open_shipped_session("uderia", profile="rag_focused")
    await platform.complete_turn(session, answer_with_text("Berth 0 [1]."), text="Which berth?")
    (request,) = search.requests
    assert (request.collections, request.text) == (("knowledge",), "Which berth?")
    (retrieved,) = await platform.load_events(session, KnowledgeRetrieved)
    assert retrieved.limits.k == 5 * len(retrieved.collections)
    assert (retrieved.limits.tokens, retrieved.limits.min_score) == (2_000, 0.2)
    assert retrieved.reranker == FUSION_NAME
    outcomes = {each.entry: each.outcome for each in retrieved.candidates}
    taken = [entry for entry, outcome in outcomes.items() if outcome == "taken"]
    assert taken == ["doc-0", "doc-1"]
    assert [outcomes[f"doc-{n}"] for n in (2, 3, 4)] == ["tokens"] * 3
    assert outcomes["weak"] == "score"
    assert sum(each.tokens for each in retrieved.taken) <= 2_000
    (body,) = platform.bodies
    assert not body.get("tools")
    system = platform.get_request_texts(0)[0]
    assert "# Retrieved for the latest message\n[1] doc-0\nBerth 0." in system
    assert "\n[2] doc-1\nBerth 1." in system
    assert system.count("# Retrieved for the latest message") == 1
    assert "doc-2" not in system
    prompt = await platform.fetch_prompt(session, "1.1")
    assert [each["content"] for each in prompt["messages"]] == platform.get_request_texts(0)
    parts = prompt["manifest"]["parts"]
    of_documents = sum(each["tokens"] for each in parts if each["component"] == "rag_context")
    assert 0 < of_documents <= 2_000


async def test_u16_history_of_rag_focused_is_condensed(platform: AgentService) -> None:
    know(platform, build_found("doc", "Berth 4 is free.", 0.9, collection="knowledge"))
    session = await platform.open_shipped_session("uderia", profile="rag_focused")
    same = "Berth 4 is free, and it has been free since Monday morning at nine."
    for _ in range(2):
        await platform.complete_turn(session, answer_with_text(same), text="Which berth?")
    await platform.complete_turn(session, answer_with_text("Yes."), text="Sure?")
    texts = platform.get_request_texts(2)
    assert texts[1:] == ["Which berth?", same, "Sure?"]


@pytest.mark.parametrize(
    ("policy", "status", "said"),
    [
        ("answer", "completed", "I found nothing."),
        ("refuse", "failed", None),
        ("{reply: There is nothing on that.}", "completed", "There is nothing on that."),
    ],
)
async def test_u16_turn_without_hits_follows_the_nothing_found_policy(
    platform: AgentService, policy: str, status: str, said: str | None
) -> None:
    name = f"uderia-{status}-{len(policy)}"
    if not (platform.folder / name).exists():
        change = ("nothing_found: answer", f"nothing_found: {policy}")
        copy_uderia(platform.folder, name, change)
    know(platform, build_found("weak", "Nothing of use.", 0.1, collection="knowledge"))
    session = await platform.open_shipped_session(name, profile="rag_focused")
    answers = [answer_with_text("I found nothing.")] if policy == "answer" else []
    turn = await platform.submit_turn(session, *answers, text="Which berth?")
    assert (turn["status"], turn["reply"]) == (status, said)
    (retrieved,) = await platform.load_events(session, KnowledgeRetrieved)
    assert retrieved.nothing_found == ("reply" if "reply" in policy else policy)
    assert [each.outcome for each in retrieved.candidates] == ["score"]
    names = await platform.list_event_names(session)
    if policy == "answer":
        assert "Nothing was found. Say so before anything else." in platform.get_request_texts(0)[0]
    else:
        assert "context-assembled" not in names
    if status == "failed":
        assert turn["reason"] == "nothing-found"


async def test_u16_llm_only_retrieves_only_if_the_session_enables_it(
    platform: AgentService,
) -> None:
    search = know(platform, build_found("doc", "Berth 4 is free.", 0.9, collection="knowledge"))
    for attributes, texts in (({}, 0), ({"knowledge": True}, 1)):
        session = await platform.open_shipped_session(
            "uderia", attributes=attributes, profile="llm_only"
        )
        await platform.complete_turn(session, answer_with_text("Four."), text="Which berth?")
        assert "Berth 4 is free." in platform.get_request_texts(-1)[0] or not texts
        assert len(search.requests) == texts


async def test_old_prompt_reproduces_after_its_case_is_edited_and_removed(
    platform: AgentService,
) -> None:
    search = know(platform, build_found("yields", "First list the ships.", 0.9))
    session = await open_working_session(platform)
    await run_planned_turn(platform, session)
    before = await platform.fetch_prompt(session, "1.1")
    search.hits = (build_found("yields", "First ask the harbour master.", 0.95),)
    assert "harbour master" in await run_planned_turn(platform, session)
    search.hits, search.collections = (), frozenset()
    assert HEADER not in await run_planned_turn(platform, session, "And now?")
    assert await platform.fetch_prompt(session, "1.1") == before
    assert await platform.find_unreproducible_calls() == []


async def test_old_prompt_reproduces_after_its_case_is_embedded_by_another_embedder(
    platform: AgentService, tmp_path: Path
) -> None:
    await import_shipped_knowledge(platform)
    letters = LetterEmbedder()
    letters.may_embed.set()
    store = open_store(f"sqlite:///{tmp_path / 'rows.db'}")
    session = await open_working_session(platform)
    prompts = list[dict[str, Any]]()
    # In a database of its own: the projector of this service keeps its own embedder.
    for embedder in (SHIPPED_EMBEDDER, CheckedEmbedder(setting="letters", _created=letters)):
        signal, library = ProjectionSignal(), platform.backend.library
        projector = KnowledgeProjector(
            log=library,
            blobs=platform.backend.blobs,
            store=store,
            tenant=platform.gateway.tenant,
            signal=signal,
            embedder=embedder,
        )
        await projector.rebuild_index()
        index = IndexedKnowledge(store=store, signal=signal, embedder=embedder)
        platform.worker.knowledge = SearchWithoutVotes(index)
        await run_planned_turn(platform, session, "Which sailings left late yesterday?")
        prompts.append(await platform.fetch_prompt(session, f"{len(prompts) + 1}.1"))
        assert await platform.fetch_prompt(session, "1.1") == prompts[0]
    await store.close()
    made = await platform.load_events(session, KnowledgeRetrieved)
    shipped = await SHIPPED_EMBEDDER.load_version()
    assert [each.embedder for each in made] == [shipped.name, "letters-1"]
    first, second = ({each.entry: each.confidence for each in one.candidates} for one in made)
    assert first["late-sailings"] != second["late-sailings"]
    assert "late-sailings" in str(prompts[0]["manifest"])
    assert await platform.find_unreproducible_calls() == []


@dataclass
class SearchWithoutVotes:
    """Searches an index whose database has no sessions, and so no votes."""

    index: IndexedKnowledge

    async def search(self, request: SearchRequest) -> SearchResult:
        return await self.index.search(replace(request, min_positions=IndexPositions()))


async def test_what_if_uses_recorded_hits_only(platform: AgentService) -> None:
    know(
        platform,
        build_found("yields", "First list the ships.", 0.9),
        build_found("berths", "First list the berths.", 0.7),
    )
    session = await open_working_session(platform)
    await run_planned_turn(platform, session)
    choosy = (
        "    collections: champion\n    min_score: 0.6\n",
        "    collections: other\n    k: 1\n    min_score: 0.8\n",
    )
    (begun, found, _) = await request_what_if(platform, session, "choosy", choosy)
    assert (found["calls"], found["same"], found["refused"]) == (2, 2, [])
    assert "the knowledge that each turn had retrieved" in begun["exact"]
    told = ("[hydration, cases]", "[hydration, cases, documents]")
    (_, found, _) = await request_what_if(platform, session, "told", told)
    assert (found["calls"], found["again"]) == (2, 1)
    (refused,) = found["refused"]
    assert (refused["code"], refused["field"]) == ("not-recorded", "layers.documents")
    assert "never searched for the retrieval knowledge" in refused["detail"]


async def request_what_if(
    platform: AgentService, session: str, folder: str, change: tuple[str, str]
) -> list[dict[str, Any]]:
    """Request what a changed `uderia` would have meant for a session; return the lines."""
    copies = platform.folder.parent / "what-if"
    copy_uderia(copies, folder, change)
    file = copies / folder / "blueprint.yaml"
    file.write_text(file.read_text().replace(f"blueprint: {folder}", "blueprint: uderia"))
    files = {
        str(each.relative_to(copies / folder)): each.read_text()
        for each in sorted((copies / folder).rglob("*"))
        if each.is_file()
    }
    form = {"sessions": [session], "blueprint": {"blueprint": "uderia", "files": files}}
    answer = await platform.http.post("/v1/what-if", json=form)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


async def test_vote_is_recorded_and_applies_to_the_next_retrieval(
    platform: AgentService,
) -> None:
    search = know(platform, build_found("yields", "First list the ships.", 0.7))
    session = await open_working_session(platform)
    await run_planned_turn(platform, session)
    path = f"/v1/sessions/{session}/turns/1/feedback"
    done = await platform.http.post(path, json={"vote": "down", "comment": "It is wrong."})
    assert done.status_code == 200, done.text
    *_, voted = await platform.load_recorded_events(session)
    assert isinstance(voted.event, FeedbackGiven)
    assert (voted.event.vote, voted.sequence) == ("down", done.json()["sequence"])
    # In another session too
    await run_planned_turn(platform, await open_working_session(platform))
    assert search.requests[-1].min_positions.votes == voted.stream_sequence
    refused = await platform.http.post(
        f"/v1/sessions/{session}/turns/9/feedback", json={"vote": "up"}
    )
    assert (refused.status_code, refused.json()["code"]) == (404, "unknown-turn")


@pytest.mark.parametrize(("feedback", "reason"), [(-1, "voted"), (0, "retrieved")])
async def test_diff_names_votes_only_where_they_left_an_entry_out(
    platform: AgentService, feedback: int, reason: str
) -> None:
    search = know(platform, build_found("yields", "First list the ships.", 0.8))
    session = await open_working_session(platform)
    await run_planned_turn(platform, session)
    confidence = 0.8 if feedback else 0.5
    search.hits = (build_found("yields", "First list the ships.", confidence, feedback=feedback),)
    await run_planned_turn(platform, session)
    second = await platform.load_events(session, KnowledgeRetrieved)
    assert second[-1].taken == ()
    for path in ("1.1/diff/2.1", "2.1/diff/1.1"):
        found = await platform.fetch_json(f"/v1/sessions/{session}/calls/{path}")
        (change,) = [each for each in found["changes"] if each["layer"] == "cases"]
        causes = [each["what"] for each in change["because"]]
        assert reason in causes
        assert ("voted" in causes) == (reason == "voted")


async def test_u18_text_retrieved_in_a_phase_is_in_no_prompt_of_another_phase(
    platform: AgentService,
) -> None:
    know(platform, build_found("secret", "The harbour master sails at night.", 0.9))
    session = await platform.open_shipped_session("uderia")
    moved = await platform.http.post(f"/v1/sessions/{session}/phase", json={"to": "operate"})
    assert moved.status_code == 200, moved.text
    assert "sails at night" in await run_planned_turn(platform, session)
    back = await platform.http.post(f"/v1/sessions/{session}/phase", json={"to": "ideate"})
    assert back.status_code == 200, back.text
    know(platform)
    await platform.complete_turn(session, answer_with_text("Hm."), text="Why?")
    assert all("sails at night" not in text for text in platform.get_request_texts(-1))


async def test_unavailable_index_delays_only_turns_that_require_retrieval(
    platform: AgentService,
) -> None:
    search = know(platform, build_found("doc", "Berth 4 is free.", 0.9, collection="knowledge"))
    search.failures = [Unavailable("knowledge-index", "it is being rebuilt")]
    session = await open_working_session(platform)
    await run_planned_turn(platform, session)
    (skipped,) = await platform.load_events(session, KnowledgeRetrieved)
    assert skipped.unavailable == "knowledge-index"
    (part,) = [p for p in await get_parts(platform, session, "1.1") if p["layer"] == "cases"]
    assert part["rule"] == "unavailable knowledge-index"
    search.failures = [Unavailable("knowledge-index", "it is being rebuilt")]
    needing = await platform.open_shipped_session("uderia", profile="rag_focused")
    await platform.complete_turn(needing, answer_with_text("Four."), text="Which berth?")
    assert "attempt-ended" in (await platform.list_event_names(needing))[:6]
    (retrieved,) = await platform.load_events(needing, KnowledgeRetrieved)
    assert [each.entry for each in retrieved.taken] == ["doc"]


async def test_retrieved_text_is_withheld_with_the_redacted_reply_of_its_turn(
    platform: AgentService,
) -> None:
    case = build_found("pilot", "The harbour master sails at night.", 0.9)
    know(platform, replace(case, title="The night pilot"))
    session = await open_working_session(platform)
    await run_planned_turn(platform, session)
    (retrieved,) = await platform.load_events(session, KnowledgeRetrieved)
    digest = retrieved.taken[0].digest
    before = (await platform.http.get(f"/v1/sessions/{session}/events")).text
    assert digest in before
    assert "The night pilot" in before
    form = {"turn": 1, "reason": "a slip", "replacement": "(Gone.)"}
    done = await platform.http.post(f"/v1/sessions/{session}/redactions", json=form)
    assert done.status_code == 200, done.text
    after = (await platform.http.get(f"/v1/sessions/{session}/events")).text
    assert "withheldby" in after
    assert digest not in after
    assert "The night pilot" not in after


async def test_bundle_includes_retrieved_texts_and_its_verifier_detects_a_changed_one(
    platform: AgentService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    know(platform, build_found("yields", "First list the ships.", 0.7))
    session = await open_working_session(platform)
    await run_planned_turn(platform, session)
    (retrieved,) = await platform.load_events(session, KnowledgeRetrieved)
    path = f"/v1/sessions/{session}/export"
    packed = await platform.http.get(path, params={"format": "bundle"})
    with ZipFile(BytesIO(packed.content)) as archive:
        archive.extractall(tmp_path)
    assert verifier.main(tmp_path, ()) == verifier.EXIT_UNWITNESSED
    text = tmp_path / "blobs" / retrieved.taken[0].digest.replace(":", "-")
    assert text.read_text() == "First list the ships."
    assert verifier.main(tmp_path, ("--prompt", session, "1.1")) == verifier.EXIT_UNWITNESSED
    assert "First list the ships." in capsys.readouterr().out
    text.write_text("First sink the ships.")
    assert verifier.main(tmp_path, ()) == verifier.EXIT_FAILED
    assert retrieved.taken[0].digest in capsys.readouterr().out


async def test_fork_reproduces_retrievals_of_its_origin_and_retrieves_for_itself(
    platform: AgentService,
) -> None:
    search = know(platform, build_found("yields", "First list the ships.", 0.9))
    session = await open_working_session(platform)
    await run_planned_turn(platform, session)
    head = (await platform.load_recorded_events(session))[-1].sequence
    forked = await platform.http.post(f"/v1/sessions/{session}/fork", json={"at": head})
    assert forked.status_code == 201, forked.text
    fork = str(forked.json()["session"])
    platform.opened_sessions.append(fork)
    search.hits = (build_found("yields", "First ask the harbour master.", 0.95),)
    assert "harbour master" in await run_planned_turn(platform, fork)
    old, new = [await platform.fetch_prompt(fork, call) for call in ("1.1", "2.1")]
    assert old["messages"] == (await platform.fetch_prompt(session, "1.1"))["messages"]
    assert ["list the ships" in str(each["messages"]) for each in (old, new)] == [True, False]
    verified = await platform.fetch_json(f"/v1/sessions/{fork}/verify")
    assert (verified["verified"], verified["prompts"]["calls"]) == (True, 4)
    assert len(await platform.load_events(session, KnowledgeRetrieved)) == 1


async def test_diff_reports_that_another_case_was_retrieved(platform: AgentService) -> None:
    search = know(platform, build_found("yields", "First list the ships.", 0.7))
    session = await open_working_session(platform)
    await run_planned_turn(platform, session)
    search.hits = (build_found("counts", "First count the ships.", 0.75),)
    await run_planned_turn(platform, session)
    diff = await platform.fetch_json(f"/v1/sessions/{session}/calls/1.1/diff/2.1")
    causes = [
        (reason["what"], [event["event"] for event in reason["by"]])
        for change in diff["changes"]
        if change["layer"] == "cases"
        for reason in change["because"]
    ]
    assert causes == [("retrieved", ["knowledge-retrieved"])] * len(causes) != []


async def test_u13_shipped_knowledge_is_imported_found_by_the_real_index_and_adapted(
    platform: AgentService,
) -> None:
    await import_shipped_knowledge(platform)
    platform.worker.knowledge = platform.gateway.parts.knowledge_search
    session = await open_working_session(platform)
    prompt = await run_planned_turn(
        platform, session, "How many sailings left more than 30 minutes late yesterday?"
    )
    assert f"{HEADER}\n[1] How many sailings left late yesterday?\n1. Call `delays`" in prompt
    assert SHORT_GUIDE in prompt
    assert LOOK_DESCRIPTION not in prompt
    (retrieved,) = await platform.load_events(session, KnowledgeRetrieved)
    assert [each.entry for each in retrieved.taken] == ["late-sailings"]
    assert 0.85 < retrieved.candidates[0].confidence < 1
    assert {each.outcome for each in retrieved.candidates[1:]} == {"score"}
    parts = await get_parts(platform, session, "1.1")
    (rule,) = [p["rule"] for p in parts if p["layer"] == "tools_text" and p.get("role")]
    assert rule == f"adapt cases {retrieved.candidates[0].confidence:g} > 0.85"
    full = await run_planned_turn(platform, session, "Late sailings, and the wind of yesterday?")
    assert FULL_GUIDE in full


async def import_shipped_knowledge(platform: AgentService) -> None:
    """Import the folder of the blueprint as its cases and documents, and wait for the index."""
    found = read_knowledge_files([KNOWLEDGE], "document")
    entries = [each.entry for file in found.files for each in file]
    assert not found.faults
    for collection, kind in (("champion", "case"), ("knowledge", "document")):
        body = build_import_body(collection, [each for each in entries if each.kind == kind])
        done = await platform.http.post("/v1/knowledge/import", json=body)
        assert done.status_code == 200, done.text
    indexed = await platform.http.post("/v1/knowledge/search", json={"text": "late"})
    assert indexed.status_code == 200, indexed.text
