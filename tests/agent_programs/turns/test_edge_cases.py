"""U29: seven edge cases, each with its outcome and its log level."""

from __future__ import annotations

import json
from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest
from structlog.testing import capture_logs

from tests.agent_programs.agent_harness import build_agent_blueprint
from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.support.servers.model_behaviours import ModelAnswer, ModelRefusal
from tests.support.sessions.session_harness import build_small_blueprint
from turnlog.events.content import compute_digest
from turnlog.events.model.call_events import AttemptEnded, CallCompleted
from turnlog.events.model.tool_events import ToolReturned
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint

pytestmark = pytest.mark.asyncio(loop_scope="module")

Said = Sequence[MutableMapping[str, Any]]


def build_plain_blueprint() -> Blueprint:
    """Return a blueprint without tools."""
    return build_small_blueprint(retries={"base_seconds": 0})


def list_log_levels(log_lines: Said, event: str) -> list[str]:
    """Return the log level of each occurrence of a log event."""
    return [line["log_level"] for line in log_lines if line["event"] == event]


async def test_u29_oversized_result_is_condensed_to_columns_and_logged_as_info(
    platform: AgentService,
) -> None:
    platform.shop.result_text = json.dumps([{"id": n, "name": f"thing {n}"} for n in range(1_000)])
    session = await platform.open_session(build_agent_blueprint())
    with capture_logs() as log_lines:
        await platform.complete_turn(
            session,
            answer_with_plan(("Look.", [])),
            answer_with_tool_calls(("shop_look", {})),
            answer_with_text("Many."),
        )
    (returned,) = await platform.load_events(session, ToolReturned)
    assert returned.treatment == "condensed"
    assert "columns id, name" in platform.get_request_texts(2)[0]
    assert list_log_levels(log_lines, "tool-result-condensed") == ["info"]


async def test_u29_truncated_reply_is_kept_and_logged_as_warning(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_plain_blueprint())
    with capture_logs() as log_lines:
        await platform.complete_turn(
            session, ModelAnswer(tokens=("Once upon",), finish="length"), text="Tell me."
        )
    (reply,) = await platform.load_events(session, TurnCompleted)
    assert reply.finish == "length"
    await platform.complete_turn(session, answer_with_text("a time."), text="Go on.")
    assert platform.get_request_texts(1)[1:] == ["Tell me.", "Once upon", "Go on."]
    assert list_log_levels(log_lines, "answer-truncated") == ["warning"]


async def test_u29_malformed_json_is_repaired_at_debug_level_or_logged_as_error_and_retried(
    platform: AgentService,
) -> None:
    session, mended = (
        await platform.open_session(build_agent_blueprint()),
        answer_with_text('```json\n{"steps": []}\n```'),
    )
    with capture_logs() as log_lines:
        await platform.complete_turn(
            session, answer_with_text('{"steps": ['), mended, answer_with_text("So.")
        )
    (plan, _) = await platform.load_events(session, CallCompleted)
    assert plan.repairs == ("taken out of a block of code",)
    assert list_log_levels(log_lines, "answer-malformed") == ["error"]
    assert list_log_levels(log_lines, "answer-repaired") == ["debug"]


async def test_u29_broken_session_stops_alone_and_is_logged_as_error(
    platform: AgentService,
) -> None:
    bad, good = (
        await platform.open_session(build_plain_blueprint()),
        await platform.open_session(build_plain_blueprint()),
    )
    await platform.complete_turn(bad, answer_with_text("One."))
    log = platform.backend.log
    place = log.sessions[platform.gateway.tenant, bad][-1]
    raw = log.stored[place - 1]
    assert raw is not None
    with capture_logs() as log_lines:
        forged = log.store_message(raw.subject, raw.stored)
        answer = await platform.http.post(f"/v1/sessions/{bad}/turns", json={"text": "Two?"})
        await platform.complete_turn(good, answer_with_text("Fine."))
        await platform.list_calls(good)
    assert (answer.status_code, answer.json()["code"]) == (409, "session-unreadable")
    listed = (await platform.fetch_json("/v1/sessions"))["sessions"]
    stopped = {each["session"]: each["stopped"] for each in listed}
    assert stopped[good] is None
    assert "where" in stopped[bad]
    history = await platform.fetch_json(f"/v1/sessions/{bad}/history")
    assert [turn["reply"] for turn in history["turns"]] == ["One."]
    assert history["unreadable"]["position"] == forged
    assert list_log_levels(log_lines, "session-stopped") == ["error"]
    log.sessions[platform.gateway.tenant, bad].remove(forged)
    platform.opened_sessions.remove(bad)


async def test_u29_invalid_snapshot_is_discarded_with_an_error_and_rebuilt_from_the_log(
    platform: AgentService,
) -> None:
    # The seed loses a collection that it retrieves from; what can be lost like that is a snapshot
    session, tenant = await platform.open_session(build_plain_blueprint()), platform.gateway.tenant
    await platform.complete_turn(session, answer_with_text("One."))
    sessions = platform.gateway.parts.command_handler
    state = await sessions.require_state(tenant, session)
    forged = replace(state.head, hash=compute_digest("junk"))
    await sessions.snapshots.save_state(replace(state, head=forged, submitted=7))
    platform.provider.queue_behaviours(answer_with_text("Two."))
    with capture_logs() as log_lines:
        async with platform.gateway.start_another_gateway() as restarted:
            path = f"/v1/sessions/{session}/turns?wait=60"
            answer = await restarted.http.post(path, json={"text": "Again?"})
    assert (answer.json()["turn"], answer.json()["reply"]) == (2, "Two.")
    assert list_log_levels(log_lines, "snapshot-discarded") == ["error"]


async def test_u29_rate_limit_is_retried_with_a_warning_for_each_attempt(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_plain_blueprint())
    with capture_logs() as log_lines:
        await platform.complete_turn(
            session,
            ModelRefusal(status=429),
            ModelRefusal(status=429),
            answer_with_text("At last."),
        )
    faults = [
        each.fault for each in await platform.load_events(session, AttemptEnded) if each.fault
    ]
    assert [each.code for each in faults] == ["rate_limited"] * 2
    assert list_log_levels(log_lines, "attempt-failed") == ["warning"] * 2


async def test_refusal_that_ends_the_turn_is_logged_as_error_with_model_and_reason(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_plain_blueprint())
    platform.provider.queue_behaviours(ModelRefusal(status=401))
    with capture_logs() as log_lines:
        assert (await platform.submit_turn(session))["status"] == "failed"
    (line,) = [each for each in log_lines if each["event"] == "attempt-failed"]
    assert (line["log_level"], line["code"], line["session"]) == ("error", "unauthorised", session)
    assert line["why"].startswith("HTTP 401")
    assert line["address"] == urlsplit(platform.provider.url).netloc
    assert line["model"] in {each["model"] for each in await platform.list_calls(session)}


async def test_u29_excluded_turn_is_left_out_of_the_prompt_and_logged_at_debug(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_plain_blueprint())
    await platform.complete_turn(session, answer_with_text("One."), text="First.")
    await platform.http.put(f"/v1/sessions/{session}/turns/1/exclusion")
    with capture_logs() as log_lines:
        await platform.complete_turn(session, answer_with_text("Two."), text="Second.")
    assert platform.get_request_texts(1)[1:] == ["Second."]
    (line,) = [each for each in log_lines if each["event"] == "prompt-parts-excluded"]
    assert (line["log_level"], line["rules"]) == ("debug", {"excluded": 1})
