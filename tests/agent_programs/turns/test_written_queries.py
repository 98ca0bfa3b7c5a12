"""A turn whose queries a model writes in a call of their own, over HTTP."""

from __future__ import annotations

import asyncio
import json
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.agent_programs.agent_harness import build_agent_blueprint, build_loop_blueprint
from tests.agent_programs.agent_service import (
    TWO_STEP_ANSWERS,
    AgentService,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.agent_programs.turns.test_query_crashes import build_querying_blueprint
from tests.agent_programs.turns.test_retrieval_crashes import build_knowing_blueprint
from tests.agent_programs.turns.test_several_queries import WordSearch
from tests.services.gateway.streaming.sse_client import ReceivedEvent
from tests.support.knowledge.fixed_search import FixedSearch, build_found
from tests.support.servers.model_behaviours import ModelAnswer, ModelRefusal
from turnlog.events.model.call_events import AttemptEnded, CallCompleted
from turnlog.events.model.retrieval_events import KnowledgeRetrieved, QueriesFailed
from turnlog.events.model.tool_events import ToolCalled
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, encode_blueprint
from turnlog.services.bundle import verifier

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUESTION = "Where do I moor, and what do I pay?"

PROMPT = "Write queries for the harbour's manual."

REPLY = answer_with_text("Berth 4, for 20.")


async def open_querying_session(
    platform: AgentService,
) -> tuple[str, WordSearch]:
    """Open a session whose worker knows two documents."""
    platform.worker.knowledge = search = WordSearch(
        [
            build_found("berth", "Berth 4 is free.", 0.9, collection="knowledge"),
            build_found("fee", "A night costs 20.", 0.4, collection="knowledge"),
        ]
    )
    kind = build_querying_blueprint({"file": "queries.md"}, k=2, at_most=2)
    folder = platform.folder / kind.blueprint
    folder.mkdir(exist_ok=True)
    (folder / "queries.md").write_text(PROMPT)
    return await platform.open_session(kind), search


async def load_retrieval(platform: AgentService, session: str) -> KnowledgeRetrieved:
    """Return the one retrieval of a session."""
    (retrieved,) = await platform.load_events(session, KnowledgeRetrieved)
    return retrieved


async def test_queries_that_a_model_wrote_are_searched_for_and_traced_to_its_prompt(
    platform: AgentService,
) -> None:
    session, search = await open_querying_session(platform)
    written = answer_with_text('["free berth", ', '"fee a night"]')
    await platform.complete_turn(session, written, REPLY, text=QUESTION)
    assert [each.text for each in search.requests] == ["free berth", "fee a night"]
    retrieved = await load_retrieval(platform, session)
    assert (retrieved.origin, retrieved.query_call, retrieved.call) == ("call", "1.1", "1.2")
    assert platform.get_request_texts(0) == [PROMPT, QUESTION]
    assert "A night costs 20." in platform.get_request_texts(1)[0]
    prompt = await platform.fetch_prompt(session, "1.1")
    assert [each["content"] for each in prompt["messages"]] == [PROMPT, QUESTION]
    why = await platform.fetch_json(f"/v1/sessions/{session}/calls/1.2/why")
    traced = {(part["query"], part["query_call"]) for part in why["parts"] if part.get("query")}
    assert traced == {("free berth", "1.1"), ("fee a night", "1.1")}
    turn = await platform.fetch_json(f"/v1/sessions/{session}/turns/1/why")
    assert [(each["kind"], each["gave"]) for each in turn["calls"]] == [
        ("query", ["2 queries of documents"]),
        ("answer", ["the reply"]),
    ]


async def test_query_call_is_counted_reproduced_and_part_of_the_bundle(
    platform: AgentService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session, _ = await open_querying_session(platform)
    await platform.complete_turn(session, answer_with_text("berth"), REPLY, text=QUESTION)
    calls = await platform.list_calls(session)
    assert [each["call"] for each in calls] == ["1.1", "1.2"]
    assert all(each["input_tokens"] > 0 for each in calls), calls
    assert await platform.find_unreproducible_calls() == []
    verified = await platform.fetch_json(f"/v1/sessions/{session}/verify")
    assert (verified["verified"], verified["prompts"]["calls"]) == (True, 2)
    path = f"/v1/sessions/{session}/export"
    packed = await platform.http.get(path, params={"format": "bundle"})
    with ZipFile(BytesIO(packed.content)) as archive:
        archive.extractall(tmp_path)
    assert verifier.main(tmp_path, ("--prompt", session, "1.1")) == verifier.EXIT_UNWITNESSED
    assert PROMPT in capsys.readouterr().out


async def test_queries_beyond_the_limit_are_counted_and_not_searched_for(
    platform: AgentService,
) -> None:
    session, search = await open_querying_session(platform)
    await platform.complete_turn(session, answer_with_text("- a\n- b\n- c"), REPLY, text=QUESTION)
    assert [each.text for each in search.requests] == ["a", "b"]
    assert (await load_retrieval(platform, session)).unsearched == 1


async def test_text_of_the_turn_is_the_query_where_the_answer_has_none(
    platform: AgentService,
) -> None:
    session, search = await open_querying_session(platform)
    await platform.complete_turn(session, answer_with_text("[]"), REPLY, text=QUESTION)
    assert [each.text for each in search.requests] == [QUESTION]
    retrieved = await load_retrieval(platform, session)
    assert (retrieved.origin, retrieved.query_call) == ("text", "1.1")


async def test_failed_query_call_is_not_repeated_and_the_turn_is_answered(
    platform: AgentService,
) -> None:
    session, search = await open_querying_session(platform)
    await platform.complete_turn(session, ModelRefusal(status=503), REPLY, text=QUESTION)
    (failed,) = await platform.load_events(session, QueriesFailed)
    assert (failed.retrieval, failed.code) == ("documents", "server_error")
    assert len(platform.bodies) == 2
    assert [each.text for each in search.requests] == [QUESTION]
    assert (await load_retrieval(platform, session)).origin == "text"
    ended, _ = await platform.load_events(session, AttemptEnded)
    assert (ended.call, ended.outcome) == ("1.1", "failed")
    why = await platform.fetch_json(f"/v1/sessions/{session}/turns/1/why")
    effects = [each["what"] for each in why["consequences"]]
    assert "no queries of documents were written: server_error" in effects


async def test_tools_and_thoughts_of_a_query_call_are_no_queries(platform: AgentService) -> None:
    session, search = await open_querying_session(platform)
    answer = ModelAnswer(
        tokens=('<think>["no"]</think>```json\n{"queries": ["berth"]}\n```',),
        tool_calls=(("invented", "{}"),),
    )
    await platform.complete_turn(session, answer, REPLY, text=QUESTION)
    assert [each.text for each in search.requests] == ["berth"]
    assert "tool-called" not in await platform.list_event_names(session)


async def test_second_turn_writes_queries_of_its_own(platform: AgentService) -> None:
    session, search = await open_querying_session(platform)
    for query in ("berth", "fee"):
        await platform.complete_turn(session, answer_with_text(query), REPLY, text=QUESTION)
    assert [each.text for each in search.requests] == ["berth", "fee"]
    answered = await platform.load_events(session, CallCompleted)
    assert [each.call for each in answered if each.text] == ["1.1", "2.1"]


async def test_watchers_get_the_reply_and_no_queries(platform: AgentService) -> None:
    session, _ = await open_querying_session(platform)
    watching = asyncio.Event()
    written = ModelAnswer(tokens=("berth",), gates={0: watching})
    platform.provider.queue_behaviours(written, REPLY)
    await platform.gateway.submit_turn(session, QUESTION)
    received: list[ReceivedEvent] = []
    async with platform.watch_turn(session) as watched:
        async for each in watched.iterate_events():
            received.append(each)
            watching.set()
    assert [each.json for each in received if each.name == "progress"] == [
        {"call": "1.1", "doing": "query"},
        {"call": "1.2", "doing": "reply"},
    ]
    tokens = [each.json["text"] for each in received if each.name == "token"]
    assert "".join(tokens) == "Berth 4, for 20."


async def test_redaction_of_the_reply_withholds_the_queries_that_a_model_wrote(
    platform: AgentService,
) -> None:
    session, _ = await open_querying_session(platform)
    await platform.complete_turn(session, answer_with_text("- free secret\n- fee secret"), REPLY)
    form = {"turn": 1, "reason": "a name", "replacement": "(Withheld.)"}
    answer = await platform.http.post(f"/v1/sessions/{session}/redactions", json=form)
    assert answer.status_code == 200, answer.text
    shown = await platform.http.get(f"/v1/sessions/{session}/events")
    assert "knowledge-retrieved" in shown.text
    assert "secret" not in shown.text
    for explained in ("calls/1.2", "turns/1"):
        why = await platform.fetch_json(f"/v1/sessions/{session}/{explained}/why")
        assert "secret" not in json.dumps(why)
        assert any(each.get("query_call") == "1.1" for each in why["parts"])
    queries = (await load_retrieval(platform, session)).queries
    assert len(queries) == 2, "the log has them"


async def test_what_if_uses_the_recorded_queries_and_searches_nothing(
    platform: AgentService,
) -> None:
    session, search = await open_querying_session(platform)
    await platform.complete_turn(session, answer_with_text("berth"), REPLY, text=QUESTION)
    kind = build_querying_blueprint({"file": "queries.md"}, k=2, at_most=2)
    files = {"blueprint.yaml": encode_blueprint(kind).decode(), "queries.md": "Be brief."}
    form = {
        "sessions": [session],
        "blueprint": {"blueprint": kind.blueprint, "files": files},
    }
    answer = await platform.http.post("/v1/what-if", json=form)
    assert answer.status_code == 200, answer.text
    found = json.loads(answer.text.splitlines()[1])
    assert (found["calls"], found["same"], found["refused"]) == (2, 1, [])
    files["blueprint.yaml"] = encode_blueprint(build_knowing_blueprint(k=2)).decode()
    answer = await platform.http.post("/v1/what-if", json=form)
    (refused,) = json.loads(answer.text.splitlines()[1])["refused"]
    assert refused["field"] == "retrieval"
    assert len(search.requests) == 1


async def test_query_call_within_a_plan_is_no_step_of_it(platform: AgentService) -> None:
    platform.worker.knowledge = search = FixedSearch(
        [build_found("hammers", "Hammers are in aisle 4.", 0.9, collection="knowledge")]
    )
    planning = build_agent_blueprint().model_dump(by_alias=True, exclude_unset=True)
    system = ["goal", "results", "documents"]
    planning["calls"]["tactic"]["messages"] = [{"system": system}, {"user": ["input"]}]
    planning["calls"]["query"] = {"messages": [{"user": ["input"]}]}
    planning["layers"]["documents"] = {"retrieval": "documents"}
    planning["retrieval"] = {
        "documents": {"collections": "knowledge", "queries": {"call": "query"}}
    }
    session = await platform.open_session(Blueprint.model_validate(planning))
    plan, look, pay, reply = TWO_STEP_ANSWERS
    await platform.complete_turn(session, plan, answer_with_text("hammer"), look, pay, reply)
    assert [each.text for each in search.requests] == ["hammer"]
    calls = await platform.list_calls(session)
    assert [each["kind"] for each in calls] == [
        *("plan", "query", "tactic", "tactic", "synthesise"),
    ]
    called = await platform.load_events(session, ToolCalled)
    assert [(each.call, each.step) for each in called] == [("1.3", 1), ("1.4", 2)]


async def test_query_call_between_two_rounds_of_a_loop_includes_no_round(
    platform: AgentService,
) -> None:
    platform.worker.knowledge = FixedSearch(
        [build_found("hammers", "Hammers are in aisle 4.", 0.9, collection="knowledge")]
    )
    # The condition is met only after the retrieval that is listed behind it.
    layers = {
        "documents": {"retrieval": "documents", "when": {"confident": "cases"}},
        "cases": {"retrieval": "cases"},
    }
    asking = [{"user": ["input"]}]
    messages = [{"system": ["documents", "cases"]}, *asking]
    kind = build_loop_blueprint(
        layers=layers,
        history={},
        calls={"converse": {"messages": messages, "tools": ["all"]}, "query": {"messages": asking}},
        retrieval={
            "documents": {"collections": "knowledge", "queries": {"call": "query"}},
            "cases": {"collections": "knowledge"},
        },
    )
    session = await platform.open_session(kind)
    look = answer_with_tool_calls(("shop_look", {"what": "hammer"}))
    await platform.complete_turn(session, look, answer_with_text("nails"), REPLY)
    roles = [[each["role"] for each in body["messages"]] for body in platform.bodies]
    assert roles == [
        ["system", "user"],
        ["user"],
        ["system", "user", "assistant", "tool"],
    ]
