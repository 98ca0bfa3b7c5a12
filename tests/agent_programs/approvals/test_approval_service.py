"""Approvals over HTTP: what an application, a watcher and an auditor get of them."""

from __future__ import annotations

from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from io import StringIO
from typing import Any, cast

import pytest
from pydantic import TypeAdapter
from rich.console import Console

from tests.agent_programs.agent_harness import build_loop_blueprint
from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.agent_programs.approvals.test_approvals import GUARDED_TOOLS
from tests.agent_programs.children.child_harness import build_team_blueprint
from tests.agent_programs.children.test_child_turns import build_guarded_team
from tests.support.servers.model_behaviours import ModelAnswer
from turnlog.client import (
    ApprovalEvent,
    ApprovalNeeded,
    AsyncTurnlogClient,
    DoneEvent,
    ReplyDonePayload,
)
from turnlog.contract.turn_payloads import ApprovalPage, HistoryView
from turnlog.events.model.child_events import ChildRequested
from turnlog.events.model.tool_events import ApprovalDecided, ApprovalRequested, ToolCalled
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.projections.blueprint.validation.blueprint_checks import check_blueprint
from turnlog.services.cli.approvals.approval_view import render_approvals
from turnlog.services.cli.views.session_view import render_conversation

pytestmark = pytest.mark.asyncio(loop_scope="module")

HAMMER = '{"what": "hammer"}'

PAY = answer_with_tool_calls(("shop_pay", {"what": "hammer"}))


async def open_waiting_turn(platform: AgentService, **tools: object) -> str:
    """Open a session, and submit a turn that waits and then is answered."""
    answers = (PAY, answer_with_text("It is yours."))
    return await submit_payment(platform, *answers, user=None, **tools)


async def submit_payment(
    platform: AgentService, *answers: ModelAnswer, user: str | None = None, **tools: object
) -> str:
    """Open a session, and submit a turn that waits for the approval of a payment."""
    kind = build_loop_blueprint(tools={**GUARDED_TOOLS, **tools})
    session = await platform.open_session(kind)
    platform.provider.queue_behaviours(*answers)
    body = {"text": "A hammer, please."} | ({"user": user} if user else {})
    await platform.http.post(f"/v1/sessions/{session}/turns", json=body)
    async with platform.watch_turn(session) as watched:
        async for event in watched.iterate_events():
            if event.name == "approval":
                break
    return session


async def decide(
    platform: AgentService,
    session: str,
    decision: str = "approve",
    approval: int = 1,
    key: str | None = None,
    **body: str,
) -> tuple[int, dict[str, Any]]:
    """Decide an approval of the first turn, and return the status and the answer."""
    path = f"/v1/sessions/{session}/turns/1/approvals/{approval}"
    headers = {"Idempotency-Key": key} if key else {}
    answer = await platform.http.post(path, json={"decision": decision, **body}, headers=headers)
    return answer.status_code, answer.json()


async def wait_for_end(platform: AgentService, session: str) -> list[Any]:
    """Watch the turn from its beginning to its end."""
    async with platform.watch_turn(session) as watched:
        return [event async for event in watched.iterate_events()]


@pytest.mark.slow("turns of several calls run over HTTP")
async def test_session_state_lists_pending_approval_and_turn_resumes_once_approved(
    platform: AgentService,
) -> None:
    session = await open_waiting_turn(platform)
    opened = (await platform.fetch_json(f"/v1/sessions/{session}"))["open"]
    (waiting,) = opened["approvals"]
    assert (opened["running"], waiting["approval"], waiting["tool"]) == (False, 1, "shop_pay")
    (turn,) = (await platform.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    (use,) = turn["tools"]
    assert (turn["status"], use["outcome"], use["approval"]["decision"]) == ("open", None, None)
    assert platform.shop.tool_calls == []
    status, done = await decide(platform, session, reason="he has money")
    assert (status, done["turn"]) == (200, 1)
    told = await wait_for_end(platform, session)
    assert told[-1].name == "done"
    assert platform.shop.tool_calls == [("pay", {"what": "hammer"})]
    (turn,) = (await platform.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    (use,) = turn["tools"]
    assert (use["outcome"], use["approval"]["decision"]) == ("answered", "approve")
    assert (use["approval"]["reason"], use["approval"]["by"] is not None) == ("he has money", True)
    verified = await platform.fetch_json(f"/v1/sessions/{session}/verify")
    assert verified["findings"] == []


async def test_turn_stream_repeats_pending_approval_to_new_watchers_and_sends_its_decision(
    platform: AgentService,
) -> None:
    session = await open_waiting_turn(platform)
    told = list[tuple[Any, Any]]()
    async with platform.watch_turn(session) as watched:
        async for event in watched.iterate_events():
            if event.name != "approval":
                continue
            told.append((event.json["decision"], event.json["arguments"]))
            if event.json["decision"] is None:
                await decide(platform, session, "refuse")
    assert told == [(None, '{"what": "hammer"}'), ("refuse", '{"what": "hammer"}')]
    assert platform.shop.tool_calls == []
    later = await wait_for_end(platform, session)
    assert [event.name for event in later if event.name == "approval"] == []


async def test_approval_decision_is_recorded_only_once(platform: AgentService) -> None:
    session = await open_waiting_turn(platform)
    first = await decide(platform, session, key="one")
    await wait_for_end(platform, session)
    assert await decide(platform, session, key="one") == first
    assert (await decide(platform, session, "refuse", key="one"))[1]["code"] == "key-reused"
    status, problem = await decide(platform, session, "refuse")
    assert (status, problem["code"]) == (409, "approval-decided")
    assert len(await platform.load_events(session, TurnCompleted)) == 1


async def test_same_decision_has_same_answer_before_and_after_the_turn_and_its_session_end(
    platform: AgentService,
) -> None:
    session = await open_waiting_turn(platform)
    first = await decide(platform, session)
    assert (first[0], first[1]["decision"], first[1]["approval"]) == (200, "approve", 1)
    await wait_for_end(platform, session)
    assert await decide(platform, session, reason="once more") == first
    await platform.http.post(f"/v1/sessions/{session}/close", json={"reason": "enough"})
    assert await decide(platform, session) == first
    status, problem = await decide(platform, session, "refuse")
    assert (status, problem["code"]) == (409, "approval-decided")
    (recorded,) = [
        each
        for each in await platform.load_recorded_events(session)
        if isinstance(each.event, ApprovalDecided)
    ]
    told = f"was approved by {recorded.envelope.actor} at {recorded.envelope.time}"
    assert told in problem["detail"]


async def test_undecided_approval_of_a_cancelled_turn_cannot_be_decided(
    platform: AgentService,
) -> None:
    session = await open_waiting_turn(platform)
    await platform.http.post(f"/v1/sessions/{session}/cancel")
    status, problem = await decide(platform, session)
    assert (status, problem["code"]) == (409, "turn-not-open")


def answer_with_payment(body: dict[str, object]) -> ModelAnswer:
    """Answer with a payment, and with a text after it."""
    messages = cast("list[dict[str, Any]]", body["messages"])
    return answer_with_text("Done.") if messages[-1]["role"] == "tool" else PAY


async def list_sessions_of_page(platform: AgentService, **query: object) -> list[str]:
    """Return the sessions of a page of approvals."""
    page = await platform.fetch_json("/v1/approvals", **query)
    return [each["session"] for each in page["approvals"]]


async def wait_for_rows(platform: AgentService, session: str) -> None:
    """Wait until the read models contain all of a session."""
    sequence = (await platform.fetch_json(f"/v1/sessions/{session}"))["sequence"]
    await platform.fetch_json("/v1/sessions", min_sequence=f"{session}:{sequence}")


@pytest.mark.slow("turns of several calls run over HTTP")
async def test_approvals_of_all_sessions_are_listed_by_page_until_they_are_decided(
    platform: AgentService,
) -> None:
    platform.provider.choose_behaviour = answer_with_payment
    sessions = [await submit_payment(platform) for _ in range(2)]
    await wait_for_rows(platform, sessions[1])
    page = await platform.fetch_json("/v1/approvals", limit=1)
    (listed,) = page["approvals"]
    assert (listed["session"], listed["tool"]) == (sessions[1], "shop_pay")
    assert (listed["arguments"], listed["decision"]) == (HAMMER, None)
    older = await list_sessions_of_page(platform, before=page["next"])
    assert older[0] == sessions[0]
    await platform.http.post(listed["decide"], json={"decision": "refuse"})
    assert sessions[1] not in await list_sessions_of_page(platform)
    await platform.http.post(f"/v1/sessions/{sessions[0]}/cancel")
    assert sessions[0] not in await list_sessions_of_page(platform)


async def test_approval_in_a_session_that_cannot_be_read_is_listed_without_arguments(
    platform: AgentService,
) -> None:
    platform.provider.choose_behaviour = answer_with_payment
    damaged, sound = [await submit_payment(platform) for _ in range(2)]
    await wait_for_rows(platform, sound)
    platform.opened_sessions.remove(damaged)
    called = next(
        each
        for each in await platform.load_recorded_events(damaged)
        if isinstance(each.event, ToolCalled)
    )
    platform.backend.log.drop_event(called.stream_sequence)
    page = await platform.fetch_json("/v1/approvals")
    arguments = {each["session"]: each["arguments"] for each in page["approvals"]}
    assert (arguments[damaged], arguments[sound]) == (None, HAMMER)
    await decide(platform, sound, "refuse")


async def test_decided_approvals_are_listed_by_state_and_user_with_who_decided_and_when(
    platform: AgentService,
) -> None:
    platform.provider.choose_behaviour = answer_with_payment
    approved, refused = [await submit_payment(platform, user="ada") for _ in range(2)]
    await decide(platform, approved)
    await decide(platform, refused, "refuse")
    for session in (approved, refused):
        await wait_for_end(platform, session)
        await wait_for_rows(platform, session)
    assert await list_sessions_of_page(platform, state="approved", user="ada") == [approved]
    assert await list_sessions_of_page(platform, state="approved", user="bob") == []
    assert await list_sessions_of_page(platform, state="refused", user="ada") == [refused]
    later = "2100-01-01T00:00:00Z"
    assert await list_sessions_of_page(platform, state="refused", since=later) == []
    page = await platform.fetch_json("/v1/approvals", state="refused", user="ada")
    (listed,) = page["approvals"]
    (recorded,) = [
        each
        for each in await platform.load_recorded_events(refused)
        if isinstance(each.event, ApprovalDecided)
    ]
    assert (listed["decision"], listed["arguments"]) == ("refuse", None)
    assert (listed["by"], listed["decided_at"]) == (
        recorded.envelope.actor,
        recorded.envelope.time,
    )
    output = Console(file=StringIO(), width=200)
    output.print(render_approvals(ApprovalPage.model_validate(page)))
    shown = cast("StringIO", output.file).getvalue()
    assert f"shop_pay · refused by {recorded.envelope.actor}" in shown
    answer = await platform.http.get("/v1/approvals", params={"state": "perhaps"})
    assert answer.status_code == 422


async def test_approval_decision_is_refused_for_unknown_ids_invalid_bodies_and_closed_sessions(
    platform: AgentService,
) -> None:
    session = await open_waiting_turn(platform)
    for decided, status, code in (
        (await decide(platform, session, approval=2), 404, "unknown-approval"),
        (await decide(platform, "nobody"), 404, "unknown-session"),
        (await decide(platform, session, "perhaps"), 422, "invalid"),
        (await decide(platform, session, reason="r" * 1_001), 422, "invalid"),
    ):
        assert (decided[0], decided[1]["code"]) == (status, code)
    await platform.http.post(f"/v1/sessions/{session}/close", json={"reason": "enough"})
    status, problem = await decide(platform, session)
    assert (status, problem["code"]) == (409, "session-closed")
    assert platform.shop.tool_calls == []


async def test_overdue_approval_decision_returns_409(platform: AgentService) -> None:
    session = await open_waiting_turn(platform, approval_seconds=0.000001)
    status, problem = await decide(platform, session)
    assert (status, problem["code"]) == (409, "approval-overdue")
    assert platform.shop.tool_calls == []
    await platform.http.post(f"/v1/sessions/{session}/cancel")
    assert len(await platform.load_events(session, ApprovalRequested)) == 1


async def test_python_client_lists_and_decides_approvals(platform: AgentService) -> None:
    session = await open_waiting_turn(platform)
    told = list[tuple[str, str | None]]()
    async with AsyncTurnlogClient(platform.gateway.address) as turnlog:
        client = turnlog.use_session(session)
        waiting = (await client.fetch_state()).open
        assert waiting
        (pending,) = waiting.approvals
        assert (waiting.turn, pending.approval, pending.tool) == (1, 1, "shop_pay")
        await wait_for_rows(platform, session)
        (listed,) = (await turnlog.list_approvals(user=None, limit=1)).approvals
        assert (listed.session, listed.arguments) == (session, HAMMER)
        async with aclosing(client.watch_turn(1)) as events:
            async for event in events:
                if isinstance(event, ApprovalEvent):
                    told.append((event.arguments, event.decision))
                    if event.decision is None:
                        await client.decide_approval(1, event.approval, "approve")
        assert (await client.fetch_state()).open is None
        types = ("tool-returned", "turn-completed")
        async with aclosing(client.watch_events(types=types)) as recorded:
            returned, settled = [await anext(recorded), await anext(recorded)]
        assert (returned.name, settled.name) == types
        use = await client.fetch_tool_result(returned.data["call"], returned.data["id"])
    assert (use.tool, use.arguments) == ("shop_pay", '{"what": "hammer"}')
    assert (use.outcome, bool(use.result)) == ("answered", True)
    assert told == [('{"what": "hammer"}', None), ('{"what": "hammer"}', "approve")]
    assert len(platform.shop.tool_calls) == 1


async def test_waiting_submit_returns_202_when_turn_needs_approval(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_loop_blueprint(tools=GUARDED_TOOLS))
    both = answer_with_tool_calls(("shop_pay", {"what": "hammer"}), ("shop_pay", {"what": "nail"}))
    platform.provider.queue_behaviours(both, answer_with_text("It is yours."))
    submit = partial(
        platform.http.post,
        f"/v1/sessions/{session}/turns?wait=300",
        json={"text": "A hammer and a nail, please."},
        headers={"Idempotency-Key": "once"},
    )
    answer = await submit()
    waiting = answer.json()
    assert (answer.status_code, waiting["status"]) == (202, "waiting-for-approval")
    asked = [(each["approval"], each["tool"], each["arguments"]) for each in waiting["approvals"]]
    assert asked == [
        (1, "shop_pay", '{"what": "hammer"}'),
        (2, "shop_pay", '{"what": "nail"}'),
    ]
    first, second = waiting["approvals"]
    await platform.http.post(first["decide"], json={"decision": "approve"})
    again = (await submit()).json()
    assert [each["approval"] for each in again["approvals"]] == [2]
    await platform.http.post(second["decide"], json={"decision": "refuse"})
    settled = await submit()
    assert (settled.status_code, settled.json()["reply"]) == (200, "It is yours.")
    assert platform.shop.tool_calls == [("pay", {"what": "hammer"})]


async def test_run_turn_raises_approval_needed_when_tool_needs_approval(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_loop_blueprint(tools=GUARDED_TOOLS))
    platform.provider.queue_behaviours(PAY, answer_with_text("It is yours."))
    async with AsyncTurnlogClient(platform.gateway.address) as turnlog:
        client = turnlog.use_session(session)
        with pytest.raises(ApprovalNeeded) as needed:
            await client.run_turn("A hammer, please.")
        (asked,) = needed.value.approvals
        assert (needed.value.turn, needed.value.code) == (1, "approval-needed")
        assert (asked.tool, asked.arguments) == ("shop_pay", '{"what": "hammer"}')
        await client.decide_approval(needed.value.turn, asked.approval, "approve")
        async with aclosing(client.watch_turn(needed.value.turn)) as events:
            end = [event async for event in events][-1]
    assert isinstance(end, DoneEvent)
    assert isinstance(end.data, ReplyDonePayload)
    assert (end.data.turn, end.data.finish) == (1, "stop")


def answer_as_team(body: dict[str, object]) -> ModelAnswer:
    """Answer as a coordinator that asks for a hammer, and as its child, which pays for it."""
    messages = cast("list[dict[str, Any]]", body["messages"])
    is_child = "shop_pay" in str(body["tools"])
    if messages[-1]["role"] == "tool":
        return answer_with_text("Bought." if is_child else "It is yours.")
    return PAY if is_child else answer_with_tool_calls(("thinker", {"query": "Buy a hammer."}))


async def open_team(platform: AgentService) -> str:
    platform.provider.choose_behaviour = answer_as_team
    return await platform.open_session(build_team_blueprint(**build_guarded_team("wait")))


async def test_waiting_submit_returns_202_when_child_turn_needs_approval(
    platform: AgentService,
) -> None:
    session = await open_team(platform)
    path, key = f"/v1/sessions/{session}/turns?wait=300", {"Idempotency-Key": "once"}
    answer = await platform.http.post(path, json={"text": "A hammer!"}, headers=key)
    assert (answer.status_code, answer.json()["status"]) == (202, "waiting-for-approval")
    (asked,) = answer.json()["approvals"]
    (requested,) = await platform.load_events(session, ChildRequested)
    assert (asked["session"], asked["turn"]) == (requested.session, 1)
    assert (asked["tool"], asked["arguments"]) == ("shop_pay", '{"what": "hammer"}')
    await platform.http.post(asked["decide"], json={"decision": "approve"})
    settled = await platform.http.post(path, json={"text": "A hammer!"}, headers=key)
    assert (settled.status_code, settled.json()["reply"]) == (200, "It is yours.")
    assert platform.shop.tool_calls == [("pay", {"what": "hammer"})]


async def test_parent_stream_repeats_pending_approval_of_child_to_new_watchers(
    platform: AgentService,
) -> None:
    session = await open_team(platform)
    async with AsyncTurnlogClient(platform.gateway.address) as turnlog:
        client = turnlog.use_session(session)
        with pytest.raises(ApprovalNeeded) as needed:
            await client.run_turn("A hammer, please.")
        (asked,) = needed.value.approvals
        told = list[Any]()
        async with aclosing(client.watch_turn(1)) as events:
            async for event in events:
                told += [event] if isinstance(event, ApprovalEvent | DoneEvent) else []
                if isinstance(event, ApprovalEvent) and event.decision is None:
                    child = turnlog.use_session(event.session)
                    await child.decide_approval(event.turn, event.approval, "refuse")
    assert [(each.session, each.turn) for each in told[:-1]] == [(asked.session, asked.turn)] * 2
    assert [each.decision for each in told[:-1]] == [None, "refuse"]
    assert isinstance(told[-1], DoneEvent)
    assert platform.shop.tool_calls == []


async def test_prompt_states_when_turn_began_or_resumed_after_approval(
    platform: AgentService,
) -> None:
    messages = [{"system": ["today"]}, {"user": ["input"]}]
    blueprint = build_loop_blueprint(
        tools=GUARDED_TOOLS,
        layers={"today": {"now": "It is {weekday}, {date}, {time}."}},
        calls={"converse": {"messages": messages, "tools": ["all"]}},
    )
    session = await platform.open_session(blueprint)
    platform.provider.queue_behaviours(PAY, answer_with_text("It is yours."))
    path = f"/v1/sessions/{session}/turns?wait=300"
    await platform.http.post(path, json={"text": "A hammer, please."})
    await decide(platform, session)
    await wait_for_end(platform, session)
    events = (await platform.fetch_json(f"/v1/sessions/{session}/events"))["events"]
    times = [
        datetime.fromisoformat(each["time"])
        for name in ("turn-submitted", "approval-decided")
        for each in events
        if f".{name}." in each["type"]
    ]
    for call, time in enumerate(times, 1):
        prompt = await platform.fetch_json(f"/v1/sessions/{session}/calls/1.{call}/prompt")
        said = time.astimezone(UTC).strftime("It is %A, %Y-%m-%d, %H:%M.")
        assert prompt["messages"][0]["content"] == said
    verified = await platform.fetch_json(f"/v1/sessions/{session}/verify")
    assert verified["findings"] == []


async def test_cli_history_shows_pending_approval(platform: AgentService) -> None:
    session = await open_waiting_turn(platform)
    found = await platform.fetch_json(f"/v1/sessions/{session}/history")
    history = TypeAdapter(HistoryView).validate_python(found)
    shown = StringIO()
    Console(file=shown, width=140).print(render_conversation(history))
    assert "shop_pay" in shown.getvalue()
    assert "waits for approval 1" in " ".join(shown.getvalue().split())
    await decide(platform, session, "refuse")
    await wait_for_end(platform, session)


@pytest.mark.parametrize("options", [{"only": ["look"]}, {"except": ["pay"]}])
async def test_blueprint_check_rejects_approval_of_tool_that_is_not_offered(
    options: dict[str, Any],
) -> None:
    servers = {"shop": {"command": ["shop"], "approve": ["pay"], **options}}
    (found,) = check_blueprint(build_loop_blueprint(tools={"servers": servers}))
    assert found.path == ("tools", "servers", "shop", "approve")
    assert found.what == "`pay` is not offered, so there is nothing to approve"
