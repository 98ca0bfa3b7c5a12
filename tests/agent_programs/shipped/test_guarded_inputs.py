"""Rules for what people submit act before anything is stored, on copies of shipped blueprints.

A text that is masked is stored masked, and so is every digest of it. No shipped blueprint has such
rules, so the tests add them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

import pytest
from pydantic import JsonValue
from structlog.testing import capture_logs

from tests.agent_programs.agent_harness import build_loop_blueprint
from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.agent_programs.approvals.test_approvals import GUARDED_TOOLS
from tests.agent_programs.phases.test_phases import build_four_phase_blueprint
from tests.agent_programs.shipped.guarded_inputs import (
    CARD,
    EMAIL,
    FOUND,
    MASKED_TEXT,
    OTHER_CARD,
    RULES,
    SECRETS,
    TEXT,
    copy_guarded,
    list_command_digests,
    open_guarded_session,
    post_turn,
    require_stored_nowhere,
)
from tests.support.servers.model_behaviours import ModelAnswer
from turnlog.events.content import PlainText, compute_digest, encode_canonical
from turnlog.events.model.session_events import PhaseEntered
from turnlog.events.model.turn_events import TurnQueued, TurnSubmitted
from turnlog.projections.blueprint.loading.blueprint_source import BLUEPRINT_FILE
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.policy_specs import InputCheckRule

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.slow("the first turn of a worker imports litellm")
async def test_masked_turn_is_stored_sent_and_shown_masked(platform: AgentService) -> None:
    session = await open_guarded_session(platform)
    platform.provider.queue_behaviours(answer_with_text("Done."))
    fields = {
        "references": {"boat": {"paid_by": [CARD]}},
        "meta": {"card": int(CARD.replace(" ", "")), "from": "the web"},
    }
    with capture_logs() as lines:
        answer = await post_turn(platform, session, "order-1", text=TEXT, **fields)
    assert answer.status_code == 200, answer.text
    await require_stored_nowhere(platform, session, TEXT)
    assert not any(secret in str(lines) for secret in SECRETS)
    [submitted] = await platform.load_events(session, TurnSubmitted)
    assert submitted.references == {"boat": {"paid_by": ["[card]"]}}
    assert submitted.meta == {"card": "[card]", "from": "the web"}
    assert platform.get_request_texts(0)[-1] == MASKED_TEXT
    [turn] = (await platform.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    assert (turn["text"], turn["findings"]) == (MASKED_TEXT, [FOUND | {"count": 3}])
    why = await platform.fetch_json(f"/v1/sessions/{session}/turns/1/why")
    assert why["findings"] == turn["findings"]


async def test_repeated_masked_request_gets_the_same_turn(platform: AgentService) -> None:
    session = await open_guarded_session(platform)
    platform.provider.queue_behaviours(answer_with_text("Done."))
    first = await post_turn(platform, session, "order-1", text=TEXT)
    again = await post_turn(platform, session, "order-1", text=TEXT)
    assert again.json() == first.json()
    other = await post_turn(platform, session, "order-1", text="Charge nothing.")
    assert (other.status_code, other.json()["code"]) == (409, "key-reused")
    assert len(await platform.load_events(session, TurnSubmitted)) == 1
    await require_stored_nowhere(platform, session, TEXT)


async def test_digest_of_a_masked_request_does_not_depend_on_what_was_masked(
    platform: AgentService,
) -> None:
    digests = set[str]()
    for card in (CARD, OTHER_CARD):
        session = await open_guarded_session(platform)
        platform.provider.queue_behaviours(answer_with_text("Done."))
        await post_turn(platform, session, "order-1", text=f"Charge {card} for the boat.")
        digests |= await list_command_digests(platform, session)
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("form", "rule", "field"),
    [
        ({"text": "Send it to DE89 3704 0044 0532 0130 00."}, "accounts", "text"),
        ({"meta": {"to": ["DE89370400440532013000"]}}, "accounts", "meta.to.0"),
        ({"references": {"DE89370400440532013000": 1}}, "accounts", "references.(22 characters)"),
        ({"meta": {CARD: 1}}, "card", "meta.(19 characters)"),
        ({"text": "It is sk-abcdefgh."}, "keys", "text"),
    ],
)
async def test_refused_turn_names_the_rule_and_the_field_and_leaves_nothing(
    platform: AgentService, form: dict[str, Any], rule: str, field: str
) -> None:
    session = await open_guarded_session(platform)
    with capture_logs() as lines:
        answer = await post_turn(platform, session, "order-1", **form)
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["field"]) == (422, "unsafe-input", field)
    assert f"`{rule}`" in problem["detail"]
    for secret in (CARD, "DE89", "sk-abcdefgh"):
        assert secret not in f"{answer.text}{lines}"
    assert await platform.list_event_names(session) == ["session-opened"]


async def test_noted_turn_is_stored_as_it_is_and_says_what_was_found(
    platform: AgentService,
) -> None:
    session = await open_guarded_session(platform)
    turn = await platform.submit_turn(
        session, answer_with_text("Done."), text=f"Write to {EMAIL} or {EMAIL}."
    )
    assert turn["status"] == "completed"
    [shown] = (await platform.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    assert shown["text"] == f"Write to {EMAIL} or {EMAIL}."
    assert shown["findings"] == [{"rule": "contact", "action": "note", "count": 2}]


async def test_turn_without_a_finding_has_the_digest_of_a_blueprint_without_rules(
    platform: AgentService,
) -> None:
    session = await open_guarded_session(platform)
    platform.provider.queue_behaviours(answer_with_text("Hello."))
    await post_turn(platform, session, "k")
    body: dict[str, JsonValue] = {"text": "Hi", "inputs": {}, "references": {}, "meta": {}}
    request: JsonValue = {"route": f"POST /v1/sessions/{session}/turns", "body": body}
    digest = compute_digest(encode_canonical(request))
    assert await list_command_digests(platform, session) == {digest}


async def test_waiting_turn_is_masked_like_an_open_one(platform: AgentService) -> None:
    session = await open_guarded_session(platform)
    gate = asyncio.Event()
    platform.provider.queue_behaviours(
        ModelAnswer(tokens=("One.",), gates={0: gate}), answer_with_text("Two.")
    )
    path = f"/v1/sessions/{session}/turns"
    assert (await platform.http.post(path, json={"text": "Hi"})).status_code == 202
    assert (await platform.http.post(path, json={"text": TEXT})).status_code == 202
    [queued] = await platform.load_events(session, TurnQueued)
    assert queued.text == PlainText(text=MASKED_TEXT)
    assert [each.rule for each in queued.findings] == ["card"]
    gate.set()
    turns = await platform.submit_turn(session, answer_with_text("Three."))
    assert turns["status"] == "completed"


async def test_inputs_of_the_game_master_are_masked_before_they_are_checked(
    platform: AgentService,
) -> None:
    copy_guarded(platform, "game-master", "game-master-guarded")
    attributes = {"entry_point": "ep.one", "world": "w.one", "ruleset": "r.one"}
    session = await platform.open_shipped_session("game-master-guarded", attributes=attributes)
    number = int(CARD.replace(" ", ""))
    refused = await post_turn(platform, session, inputs={"token_budget": number})
    assert (refused.status_code, refused.json()["field"]) == (422, "inputs.token_budget")
    assert str(number) not in refused.text
    # Without a segment of the core it fails, as it would without the rules.
    await post_turn(platform, session, inputs={"player": TEXT})
    [submitted] = await platform.load_events(session, TurnSubmitted)
    assert submitted.inputs["player"] == MASKED_TEXT
    await require_stored_nowhere(platform, session, TEXT)


async def test_question_is_masked_on_the_route_for_questions(platform: AgentService) -> None:
    copy_guarded(platform, "araquem", "araquem")
    platform.provider.queue_behaviours(answer_with_text("It is paid."))
    form = {"conversation_id": "c", "client_id": "bank", "nickname": f"Ada {OTHER_CARD}"}
    before = set(platform.backend.log.sessions)
    answer = await platform.http.post("/v1/ask", json={"question": TEXT, **form})
    assert answer.status_code == 200, answer.text
    [(_, session)] = set(platform.backend.log.sessions) - before
    platform.opened_sessions.append(session)
    [submitted] = await platform.load_events(session, TurnSubmitted)
    assert submitted.text == PlainText(text=MASKED_TEXT)
    assert submitted.meta == {"nickname": "Ada [card]"}
    await require_stored_nowhere(platform, session, TEXT)
    refused = await platform.http.post("/v1/ask", json={"question": "Is it sk-abcdefgh?", **form})
    assert (refused.status_code, refused.json()["code"]) == (422, "unsafe-input")


ABOUT_A_TURN: Final[Mapping[str, tuple[str, str, dict[str, object]]]] = {
    "the comment of a vote": ("POST", "turns/1/feedback", {"vote": "up", "comment": TEXT}),
    "the display form": ("PUT", "turns/1/display", {"text": f"<b>{TEXT}</b>"}),
    "the reason of a redaction": ("POST", "redactions", {"turn": 1, "reason": TEXT}),
    "a replacement": ("POST", "redactions", {"turn": 1, "reason": "r", "replacement": TEXT}),
}


@pytest.mark.parametrize(("method", "path", "form"), ABOUT_A_TURN.values(), ids=ABOUT_A_TURN.keys())
async def test_what_is_written_about_a_turn_is_masked_too(
    platform: AgentService, method: str, path: str, form: dict[str, object]
) -> None:
    session = await open_guarded_session(platform)
    await platform.submit_turn(session, answer_with_text("Done."))
    url, headers = f"/v1/sessions/{session}/{path}", {"Idempotency-Key": "k"}
    first = await platform.http.request(method, url, json=form, headers=headers)
    assert first.status_code == 200, first.text
    again = await platform.http.request(method, url, json=form, headers=headers)
    assert again.json() == first.json()
    last = (await platform.load_recorded_events(session))[-1]
    assert MASKED_TEXT.encode() in last.stored
    await require_stored_nowhere(platform, session, TEXT, f"<b>{TEXT}</b>")


@pytest.mark.parametrize(("method", "path", "form"), ABOUT_A_TURN.values(), ids=ABOUT_A_TURN.keys())
async def test_what_is_written_about_a_turn_may_be_refused(
    platform: AgentService, method: str, path: str, form: dict[str, object]
) -> None:
    session = await open_guarded_session(platform)
    await platform.submit_turn(session, answer_with_text("Done."))
    url, written = f"/v1/sessions/{session}/{path}", json.dumps(form).replace(TEXT, "sk-abcdefgh")
    answer = await platform.http.request(method, url, json=json.loads(written))
    assert (answer.status_code, answer.json()["code"]) == (422, "unsafe-input")
    assert "sk-abc" not in answer.text


async def test_comment_on_an_entry_is_guarded_before_the_entry_is_looked_for(
    platform: AgentService,
) -> None:
    session = await open_guarded_session(platform)
    await platform.submit_turn(session, answer_with_text("Done."))
    entry = {"collection": "champion", "entry": "yields"}
    for comment, code in ((TEXT, "not-retrieved"), ("sk-abcdefgh", "unsafe-input")):
        form = {"vote": "up", "comment": comment, "entry": entry}
        path = f"/v1/sessions/{session}/turns/1/feedback"
        refused = await platform.http.post(path, json=form)
        assert (refused.status_code, refused.json()["code"]) == (422, code)
        assert comment not in refused.text
    await require_stored_nowhere(platform, session, TEXT)


def add_rules(kind: Blueprint) -> Blueprint:
    """Add the rule that masks cards to a blueprint."""
    rule = InputCheckRule(name="card", check="cards", action="mask")
    policies = kind.policies.model_copy(update={"input_safety": (rule,)})
    return kind.model_copy(update={"policies": policies})


async def test_text_that_is_carried_into_a_phase_is_masked(platform: AgentService) -> None:
    session = await platform.open_session(add_rules(build_four_phase_blueprint()))
    body = {"to": "focus", "carry": TEXT}
    answer = await platform.http.post(f"/v1/sessions/{session}/phase", json=body)
    assert answer.status_code == 200, answer.text
    [_, entered] = await platform.load_events(session, PhaseEntered)
    assert isinstance(entered.carried, PlainText)
    assert MASKED_TEXT in entered.carried.text
    await require_stored_nowhere(platform, session, TEXT)


async def test_reason_of_an_approval_is_masked(platform: AgentService) -> None:
    session = await platform.open_session(add_rules(build_loop_blueprint(tools=GUARDED_TOOLS)))
    request = answer_with_tool_calls(("shop_pay", {"what": "boat"}))
    platform.provider.queue_behaviours(request, answer_with_text("It is not paid."))
    waiting = await post_turn(platform, session)
    assert waiting.status_code == 202, waiting.text
    path, body = f"/v1/sessions/{session}/turns/1", {"decision": "refuse", "reason": TEXT}
    for _ in range(2):
        decided = await platform.http.post(f"{path}/approvals/1", json=body)
        assert decided.status_code == 200, decided.text
    async with platform.watch_turn(session) as watched:
        assert [event.name async for event in watched.iterate_events()][-1] == "done"
    assert MASKED_TEXT in json.dumps(platform.bodies)
    await require_stored_nowhere(platform, session, TEXT)


async def test_edited_arguments_are_masked_before_they_are_recorded_and_run(
    platform: AgentService,
) -> None:
    session = await platform.open_session(add_rules(build_loop_blueprint(tools=GUARDED_TOOLS)))
    request = answer_with_tool_calls(("shop_pay", {"what": "boat"}))
    platform.provider.queue_behaviours(request, answer_with_text("It is paid."))
    asked = (await post_turn(platform, session)).json()["approvals"][0]
    body = {"decision": "approve", "shown": asked["digest"], "arguments": {"what": TEXT}}
    for _ in range(2):
        decided = await platform.http.post(asked["decide"], json=body)
        assert decided.status_code == 200, decided.text
    async with platform.watch_turn(session) as watched:
        assert [event.name async for event in watched.iterate_events()][-1] == "done"
    assert MASKED_TEXT in json.dumps(platform.shop.tool_calls)
    await require_stored_nowhere(platform, session, TEXT)


async def test_preview_of_a_turn_is_guarded_like_the_turn(platform: AgentService) -> None:
    session = await open_guarded_session(platform)
    path = f"/v1/sessions/{session}/window"
    window = await platform.http.post(path, json={"text": TEXT})
    assert window.status_code == 200, window.text
    assert MASKED_TEXT in window.text
    assert CARD not in window.text
    refused = await platform.http.post(path, json={"text": "It is sk-abcdefgh."})
    assert (refused.status_code, refused.json()["code"]) == (422, "unsafe-input")


async def test_turn_is_guarded_by_the_rules_that_a_session_moved_to(
    platform: AgentService,
) -> None:
    folder = platform.copy_shipped_blueprint("assistant", "assistant-moving")
    session = await platform.open_shipped_session("assistant-moving")
    async with platform.gateway.start_another_gateway() as other:
        platform.provider.queue_behaviours(answer_with_text("One."), answer_with_text("Two."))
        path = f"/v1/sessions/{session}/turns?wait=60"
        assert (await other.http.post(path, json={"text": "Hi"})).status_code == 200
        file = folder / BLUEPRINT_FILE
        written = file.read_text().replace("version: 1\n", "version: 2\n")
        file.write_text(written.replace("policies:\n", f"policies:{RULES}"))
        moved = await platform.http.post(f"/v1/sessions/{session}/blueprint", json={})
        assert moved.status_code == 200, moved.text
        answer = await other.http.post(
            path, json={"text": TEXT}, headers={"Idempotency-Key": "order-1"}
        )
        assert answer.status_code == 200, answer.text
    await require_stored_nowhere(platform, session, TEXT)
