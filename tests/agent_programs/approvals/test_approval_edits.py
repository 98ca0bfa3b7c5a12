"""Arguments that a person edits: what is shown, checked, recorded, run and read, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from types import MappingProxyType
from typing import Any, cast

import pytest
from rich.console import Console

from tests.agent_programs.agent_service import AgentService, answer_with_text
from tests.agent_programs.approvals.test_approval_service import (
    HAMMER,
    open_waiting_turn,
    wait_for_end,
)
from tests.agent_programs.shipped.test_tool_outcomes import (
    BOOK,
    ask_next,
    open_guarded_session,
    require_verified,
    start_waiting_turn,
)
from tests.agent_programs.shipped.test_tool_outcomes import wait_for_end as wait_for_outcome
from turnlog.contract.turn_payloads import HistoryView
from turnlog.events.content import compute_digest
from turnlog.events.model.tool_events import ApprovalDecided, ToolCalled, ToolStarted
from turnlog.projections.session.rules.steps.approval_rules import EDITED_NOTE
from turnlog.services.cli.views.session_view import render_conversation

pytestmark = pytest.mark.asyncio(loop_scope="module")

SHOWN = compute_digest(HAMMER)

EDIT = {"shown": SHOWN, "arguments": {"what": "nail"}}

PLAIN: Mapping[str, object] = MappingProxyType({})

EDITED = '{"what":"nail"}'


async def decide(
    platform: AgentService,
    session: str,
    body: Mapping[str, object] = PLAIN,
    key: str | None = None,
) -> tuple[int, dict[str, Any]]:
    """Decide the approval of the first turn, and return the status and the answer."""
    path = f"/v1/sessions/{session}/turns/1/approvals/1"
    headers = {"Idempotency-Key": key} if key else {}
    sent = {"decision": "approve", **body}
    answer = await platform.http.post(path, json=sent, headers=headers)
    return answer.status_code, answer.json()


async def test_decision_is_bound_to_the_arguments_that_were_shown(platform: AgentService) -> None:
    session = await open_waiting_turn(platform)
    (waiting,) = (await platform.fetch_json(f"/v1/sessions/{session}"))["open"]["approvals"]
    assert waiting["digest"] == SHOWN
    other = compute_digest("{}")
    status, problem = await decide(platform, session, {"shown": other})
    assert (status, problem["code"]) == (409, "approval-arguments-differ")
    assert (other in problem["detail"], SHOWN in problem["detail"]) == (True, True)
    assert platform.shop.tool_calls == []
    first = await decide(platform, session, {"shown": SHOWN})
    assert (first[0], first[1]["approved"], first[1]["edited"]) == (200, SHOWN, False)
    await wait_for_end(platform, session)
    _, problem = await decide(platform, session, {"shown": other})
    assert problem["code"] == "approval-arguments-differ"
    assert await decide(platform, session) == first
    assert platform.shop.tool_calls == [("pay", {"what": "hammer"})]
    (started,) = await platform.load_events(session, ToolStarted)
    assert started.ran == SHOWN


async def test_edited_arguments_run_and_are_recorded_as_asked_edited_and_ran(
    platform: AgentService,
) -> None:
    session = await open_waiting_turn(platform)
    first = await decide(platform, session, EDIT)
    assert (first[0], first[1]["edited"], first[1]["approved"]) == (
        200,
        True,
        compute_digest(EDITED),
    )
    await wait_for_end(platform, session)
    assert platform.shop.tool_calls == [("pay", {"what": "nail"})]
    (asked,) = await platform.load_events(session, ToolCalled)
    (decided,) = await platform.load_events(session, ApprovalDecided)
    (started,) = await platform.load_events(session, ToolStarted)
    assert (asked.arguments, decided.shown, decided.edited) == (HAMMER, SHOWN, EDITED)
    assert decided.approved == started.ran == compute_digest(EDITED)
    # The same decision has the same answer; one with other arguments is another decision.
    assert await decide(platform, session, EDIT) == first
    others: tuple[Mapping[str, object], ...] = ({}, EDIT | {"arguments": {"what": "saw"}})
    for other in others:
        status, problem = await decide(platform, session, other)
        assert (status, problem["code"]) == (409, "approval-decided")
        assert "with other arguments" in problem["detail"]


async def test_model_and_readers_see_the_edited_arguments_and_prompts_read_back(
    platform: AgentService,
) -> None:
    session = await open_waiting_turn(platform)
    await decide(platform, session, EDIT)
    await wait_for_end(platform, session)
    messages = cast("list[dict[str, Any]]", platform.provider.exchanges[-1].body["messages"])
    assert messages[-2]["tool_calls"][0]["function"]["arguments"] == HAMMER
    assert messages[-1]["role"] == "tool"
    assert messages[-1]["content"].startswith(f"shop_pay {EDITED}")
    assert EDITED_NOTE in messages[-1]["content"]
    verified = await platform.fetch_json(f"/v1/sessions/{session}/verify")
    assert verified["findings"] == []
    history = await platform.fetch_json(f"/v1/sessions/{session}/history")
    (use,) = history["turns"][0]["tools"]
    assert (use["arguments"], use["approval"]["edited"]) == (HAMMER, EDITED)
    output = Console(file=StringIO(), width=200)
    output.print(render_conversation(HistoryView.model_validate(history)))
    assert f"{HAMMER} · edited to {EDITED}" in cast("StringIO", output.file).getvalue()
    why = await platform.http.get(f"/v1/sessions/{session}/turns/1/why")
    assert f"approved shop_pay with {EDITED} instead" in why.text.replace("\\", "")
    result = await platform.fetch_json(
        f"/v1/sessions/{session}/calls/{use['call']}/tools/{use['id']}"
    )
    assert (result["arguments"], result["edited"]) == (HAMMER, EDITED)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"shown": SHOWN, "arguments": {"what": 3}}, "arguments.what"),
        ({"arguments": {"what": "nail"}}, "shown"),
        ({"shown": "sha256:12"}, "shown"),
        ({"shown": SHOWN, "arguments": ["nail"]}, "arguments"),
        ({"decision": "refuse", "shown": SHOWN, "arguments": {"what": "nail"}}, "arguments"),
    ],
)
async def test_faulty_edit_is_refused_with_its_field_before_anything_is_recorded(
    platform: AgentService, body: dict[str, Any], field: str
) -> None:
    session = await open_waiting_turn(platform)
    status, problem = await decide(platform, session, body)
    assert (status, problem["code"], problem["field"]) == (422, "invalid", field)
    assert await platform.load_events(session, ApprovalDecided) == []
    await platform.http.post(f"/v1/sessions/{session}/cancel")


async def test_idempotency_key_covers_the_edit(platform: AgentService) -> None:
    session = await open_waiting_turn(platform)
    first = await decide(platform, session, EDIT, key="one")
    assert await decide(platform, session, EDIT, key="one") == first
    other = EDIT | {"arguments": {"what": "saw"}}
    status, problem = await decide(platform, session, other, key="one")
    assert problem["code"] == "key-reused", status
    await wait_for_end(platform, session)
    assert len(await platform.load_events(session, ApprovalDecided)) == 1


async def test_withheld_reply_withholds_the_edit_and_the_digests_of_the_arguments(
    platform: AgentService,
) -> None:
    session = await open_waiting_turn(platform)
    await decide(platform, session, EDIT)
    await wait_for_end(platform, session)
    redaction = {"turn": 1, "reason": "it names a thing"}
    await platform.http.post(f"/v1/sessions/{session}/redactions", json=redaction)
    events = (await platform.http.get(f"/v1/sessions/{session}/events")).text
    for hidden in ("nail", SHOWN, compute_digest(EDITED)):
        assert hidden not in events
    history = await platform.http.get(f"/v1/sessions/{session}/history")
    assert history.json()["turns"][0]["tools"][0]["approval"]["edited"] is None


@pytest.mark.slow("two turns with tools over HTTP, and a verification outside of the product")
async def test_model_of_a_shipped_blueprint_reads_the_arguments_that_ran(
    platform: AgentService,
) -> None:
    session = await open_guarded_session(platform)
    await start_waiting_turn(platform, session, BOOK, answer_with_text("Booked."))
    (waiting,) = (await platform.fetch_json(f"/v1/sessions/{session}"))["open"]["approvals"]
    edit = {"shown": waiting["digest"], "arguments": {"what": "a cabin"}}
    assert (await decide(platform, session, edit))[0] == 200
    assert await wait_for_outcome(platform, session) == "done"
    assert platform.shop.tool_calls == [("pay", {"what": "a cabin"})]
    assert "a cabin" in platform.bodies[-1]["messages"][-1]["content"]
    await ask_next(platform, session)
    await require_verified(platform, session)
