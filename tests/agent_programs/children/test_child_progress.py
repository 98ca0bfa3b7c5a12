"""What children do, in the stream of their parent's turn: over HTTP on the shipped `uderia`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

import pytest

from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.agent_programs.children.child_harness import build_team_blueprint
from tests.agent_programs.children.test_child_turns import build_guarded_team
from tests.services.gateway.gateway_service import start_gateway
from tests.services.gateway.streaming.sse_client import ReceivedEvent, open_stream
from tests.support.servers.model_behaviours import ModelAnswer, ModelBehaviour, ModelRefusal
from turnlog.client import ApprovalEvent, AsyncTurnlogClient, ChildEvent
from turnlog.events.model.child_events import ChildRequested

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow("turns of a coordinator and its children run over HTTP"),
]

LOOK_UP = "List all boats."
THINK = "What speaks against a boat?"


def build_answers(thinker: ModelBehaviour) -> Callable[[dict[str, object]], ModelBehaviour]:
    """Answer as the coordinator, as a child that plans nothing, and as one that thinks."""

    def choose(body: dict[str, object]) -> ModelBehaviour:
        messages = cast("list[dict[str, Any]]", body["messages"])
        asked = [each["content"] for each in messages if each["role"] == "user"][-1]
        if asked.startswith(THINK):
            return thinker
        if asked == LOOK_UP:
            is_reply = "# Your task now: reply" in messages[0]["content"]
            return answer_with_text("Three boats.") if is_reply else answer_with_plan()
        if any(each["role"] == "tool" for each in messages):
            return answer_with_text("Think twice.")
        return answer_with_tool_calls(
            ("tool_enabled", {"query": LOOK_UP}), ("llm_only", {"query": THINK})
        )

    return choose


async def submit_to_coordinator(platform: AgentService, thinker: ModelBehaviour) -> str:
    platform.provider.choose_behaviour = build_answers(thinker)
    session = await platform.open_shipped_session("uderia", attributes={}, profile="genie")
    path = f"/v1/sessions/{session}/turns"
    answer = await platform.http.post(path, json={"text": "A boat?"})
    assert answer.status_code == 202, answer.text
    return session


@asynccontextmanager
async def start_second_gateway(platform: AgentService) -> AsyncGenerator[int]:
    """Start another gateway on the same log, and yield its port."""
    first = platform.gateway
    async with start_gateway(
        backend=platform.backend,
        store=first.store,
        signal=first.projection_signal,
        settings=first.settings,
        model=first.model,
    ) as second:
        port = second.http.base_url.port
        assert port is not None
        yield port


def get_port(platform: AgentService) -> int:
    port = platform.http.base_url.port
    assert port is not None
    return port


async def read_until(
    port: int, session: str, is_last: Callable[[ReceivedEvent], bool], last_id: str | None = None
) -> list[ReceivedEvent]:
    """Watch turn 1 until a frame; each frame is checked against the published schema."""
    received = list[ReceivedEvent]()
    path = f"/v1/sessions/{session}/turns/1/stream"
    async with open_stream(port, path, last_id=last_id) as answer:
        assert answer.status == 200
        async for event in answer.iterate_events():
            received.append(event)
            if is_last(event):
                return received
    raise AssertionError(received)


def is_text_of(profile: str, characters: int) -> Callable[[ReceivedEvent], bool]:
    return lambda event: (
        event.name == "child"
        and event.json["profile"] == profile
        and event.json.get("characters") == characters
    )


def is_started_of(profile: str) -> Callable[[ReceivedEvent], bool]:
    return lambda event: (
        event.name == "child"
        and (event.json["profile"], event.json["doing"]) == (profile, "started")
    )


def is_done(event: ReceivedEvent) -> bool:
    return event.name == "done"


def list_children(received: list[ReceivedEvent], profile: str) -> list[dict[str, Any]]:
    found = (each.json for each in received if each.name == "child")
    return [each for each in found if each["profile"] == profile]


async def test_stream_of_the_parent_reports_each_child_from_start_to_end(
    platform: AgentService,
) -> None:
    gate = asyncio.Event()
    thinker = ModelAnswer(tokens=("A boat ", "is work."), gates={1: gate})
    session = await submit_to_coordinator(platform, thinker)
    before = await read_until(get_port(platform), session, is_text_of("llm_only", 7))
    gate.set()
    received = await read_until(get_port(platform), session, is_done)
    requested = await platform.load_events(session, ChildRequested)
    for asked in requested:
        shown = list_children(received, asked.profile)
        assert [each["doing"] for each in shown][-1] == "ended"
        assert shown[-1]["outcome"] == "answered"
        for each in (*shown, *list_children(before, asked.profile)):
            named = (each["session"], each["turn"], each["parent"], each["call"])
            assert named == (asked.session, 1, session, "1.1")
    assert list_children(before, "llm_only")[-1] == {
        "session": requested[1].session,
        "turn": 1,
        "parent": session,
        "profile": "llm_only",
        "call": "1.1",
        "doing": "text",
        "characters": 7,
    }
    written = "".join(each.data for each in (*before, *received) if each.name == "child")
    assert "boat" not in written, "no text of a child is in its progress"
    assert {each.id for each in before if each.name == "child"} == {"1.1.0"}


async def test_reconnecting_client_gets_the_present_state_once_from_another_gateway(
    platform: AgentService,
) -> None:
    gate = asyncio.Event()
    session = await submit_to_coordinator(
        platform, ModelAnswer(tokens=("A boat ", "is work."), gates={1: gate})
    )
    first = await read_until(get_port(platform), session, is_text_of("llm_only", 7))
    async with start_second_gateway(platform) as port:
        again = await read_until(port, session, is_text_of("llm_only", 7), first[-1].id)
        assert len(list_children(again, "llm_only")) == 1
        gate.set()
        rest = await read_until(port, session, is_done, first[-1].id)
    assert list_children(rest, "llm_only")[-1]["outcome"] == "answered"


async def test_failed_child_ends_with_its_outcome_and_the_stream_goes_on(
    platform: AgentService,
) -> None:
    session = await submit_to_coordinator(platform, ModelRefusal(status=401))
    received = await read_until(get_port(platform), session, is_done)
    assert list_children(received, "llm_only")[-1]["outcome"] == "failed"
    assert list_children(received, "tool_enabled")[-1]["outcome"] == "answered"


async def test_child_whose_log_is_damaged_fails_no_stream(platform: AgentService) -> None:
    gate = asyncio.Event()
    session = await submit_to_coordinator(
        platform, ModelAnswer(tokens=("A boat ", "is work."), gates={1: gate})
    )
    await read_until(get_port(platform), session, is_text_of("llm_only", 7))
    requested = await platform.load_events(session, ChildRequested)
    damaged = next(each.session for each in requested if each.profile == "llm_only")
    lost = (await platform.load_recorded_events(damaged))[-2]
    platform.backend.log.drop_event(lost.stream_sequence)
    async with start_second_gateway(platform) as port:
        received = await read_until(port, session, is_started_of("llm_only"))
        assert list_children(received, "llm_only")[-1]["doing"] == "started"
        cancelled = await platform.http.post(f"/v1/sessions/{session}/cancel", json={})
        assert cancelled.status_code == 200
    platform.opened_sessions.clear()
    gate.set()


async def test_child_that_runs_a_tool_or_waits_for_approval_is_shown_with_its_tool(
    platform: AgentService,
) -> None:
    gate = asyncio.Event()
    platform.shop.during_call = gate.wait
    pay = answer_with_tool_calls(("shop_pay", {"what": "hammer"}))

    def choose(body: dict[str, object]) -> ModelAnswer:
        is_child = "shop_pay" in str(body["tools"])
        if cast("list[dict[str, Any]]", body["messages"])[-1]["role"] == "tool":
            return answer_with_text("Bought.")
        return pay if is_child else answer_with_tool_calls(("thinker", {"query": "Buy it."}))

    platform.provider.choose_behaviour = choose
    session = await platform.open_session(build_team_blueprint(**build_guarded_team("wait")))
    seen = list[ChildEvent]()
    async with AsyncTurnlogClient(platform.gateway.address) as turnlog:
        client = turnlog.use_session(session)
        submitted = await client.submit_turn("A hammer!")
        async with aclosing(client.watch_turn(submitted.turn)) as events:
            async for event in events:
                if isinstance(event, ChildEvent):
                    seen.append(event)
                    if event.doing == "tool":
                        gate.set()
                elif isinstance(event, ApprovalEvent) and event.decision is None:
                    child = turnlog.use_session(event.session)
                    await child.decide_approval(event.turn, event.approval, "approve")
    tools = [each for each in seen if each.doing == "tool"]
    assert [each.tool for each in tools] == ["shop_pay"]
    assert (seen[-1].doing, seen[-1].outcome) == ("ended", "answered")


async def test_child_of_a_child_is_in_the_stream_with_the_session_that_asked_it(
    platform: AgentService,
) -> None:
    def choose(body: dict[str, object]) -> ModelAnswer:
        offered = [each["function"]["name"] for each in cast("list[Any]", body.get("tools", []))]
        if not offered or cast("list[dict[str, Any]]", body["messages"])[-1]["role"] == "tool":
            return answer_with_text("So it is.")
        return answer_with_tool_calls((offered[0], {"query": "Is it so?"}))

    platform.provider.choose_behaviour = choose
    coordinator = {"program": "coordinator", "call": "coordinate"}
    profiles = {
        "head": {**coordinator, "default": True, "children": ["deputy"]},
        "deputy": {**coordinator, "summary": "Asks others.", "children": ["thinker"]},
        "thinker": {"summary": "Thinks.", "call": "reply"},
    }
    session = await platform.open_session(
        build_team_blueprint(blueprint="three-levels", profiles=profiles)
    )
    answer = await platform.http.post(f"/v1/sessions/{session}/turns", json={"text": "Is it?"})
    assert answer.status_code == 202, answer.text
    received = await read_until(get_port(platform), session, is_done)
    deputy, thinker = (list_children(received, each)[-1] for each in ("deputy", "thinker"))
    assert deputy["parent"] == session
    assert thinker["parent"] == deputy["session"]
    assert (deputy["outcome"], thinker["turn"]) == ("answered", 1)
