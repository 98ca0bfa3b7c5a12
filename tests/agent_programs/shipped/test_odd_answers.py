"""Answers as odd servers give them, on the shipped agent platform over HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.agent_programs.agent_service import SHIPPED_RETRIES, AgentService, answer_with_text
from tests.support.servers.model_behaviours import (
    ModelAnswer,
    ModelBehaviour,
    ModelRefusal,
    ModelSilence,
    RawFrames,
)
from turnlog.events.content import PlainText
from turnlog.events.model.call_events import AttemptEnded, AttemptStarted
from turnlog.events.model.turn_events import TurnCompleted

pytestmark = pytest.mark.asyncio(loop_scope="module")


def build_frames(*deltas: Mapping[str, object], finish: str = "stop") -> RawFrames:
    """Return a stream of these deltas, with usage and a finish reason."""
    choices: list[Mapping[str, object]] = [{"delta": each} for each in deltas]
    choices.append({"delta": {}, "finish_reason": finish})
    usage = {"prompt_tokens": 50, "completion_tokens": 20}
    chunks: list[Mapping[str, object]] = [{"choices": [each]} for each in choices]
    chunks.append({"choices": [], "usage": usage})
    lines = [json.dumps(each) for each in chunks]
    return RawFrames(tuple(f"data: {each}\n\n".encode() for each in (*lines, "[DONE]")))


async def ask(platform: AgentService, answer: ModelBehaviour, policy: str = "") -> dict[str, Any]:
    """Ask one question of `uderia`, whose policies get one line more; return the turn."""
    blueprint = "uderia"
    if policy:
        blueprint = "uderia-" + policy.partition(": ")[2]
        edits = {SHIPPED_RETRIES: f"  retries: {{max: 1, base_seconds: 0}}\n  {policy}\n"}
        platform.copy_shipped_blueprint("uderia", blueprint, edits)
    session = await platform.open_shipped_session(blueprint, attributes={}, profile="llm_only")
    turn = await platform.submit_turn(session, answer, answer_with_text("Good day."))
    return {**turn, "session": session}


REASONING = {"reasoning_content": "The answer is 42."}


@pytest.mark.parametrize(
    ("policy", "status", "attempts"),
    [
        ("empty_reply: retry", "completed", 2),
        ("empty_reply: fail", "failed", 1),
        ("empty_reply: accept", "completed", 1),
    ],
)
async def test_answer_of_reasoning_alone_is_what_the_blueprint_makes_of_it(
    platform: AgentService, policy: str, status: str, attempts: int
) -> None:
    turn = await ask(platform, build_frames(REASONING), policy)
    assert turn["status"] == status
    assert len(await platform.load_events(turn["session"], AttemptStarted)) == attempts
    assert turn["reply"] == {"retry": "Good day.", "accept": ""}.get(policy.partition(": ")[2])
    if status == "failed":
        assert turn["reason"] == "empty"


async def test_answer_that_used_up_its_length_on_reasoning_is_not_paid_for_again(
    platform: AgentService,
) -> None:
    turn = await ask(platform, build_frames(REASONING, finish="length"))
    assert (turn["status"], turn["reason"]) == ("failed", "empty")
    assert len(await platform.load_events(turn["session"], AttemptStarted)) == 1


async def test_unknown_finish_reason_is_recorded_as_sent_and_the_answer_is_whole(
    platform: AgentService,
) -> None:
    turn = await ask(platform, ModelAnswer(tokens=("All of it.",), finish="pause_turn"))
    assert (turn["status"], turn["reply"], turn["finish"]) == ("completed", "All of it.", "other")
    (completed,) = await platform.load_events(turn["session"], TurnCompleted)
    assert completed.answer is not None
    assert completed.answer.spent.finish_sent == "pause_turn"
    assert len(await platform.load_events(turn["session"], AttemptStarted)) == 1


async def test_provider_without_credit_is_asked_once(platform: AgentService) -> None:
    refusal = ModelRefusal(status=429, code="insufficient_quota", type="insufficient_quota")
    turn = await ask(platform, refusal)
    assert (turn["status"], turn["reason"]) == ("failed", "out_of_credit")
    assert len(await platform.load_events(turn["session"], AttemptStarted)) == 1


async def test_answer_that_cannot_be_read_is_recorded_as_it_came(platform: AgentService) -> None:
    part = {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}}
    turn = await ask(platform, build_frames({"images": [part]}), "empty_reply: retry")
    assert turn["status"] == "completed", "the second answer"
    first, _ = await platform.load_events(turn["session"], AttemptEnded)
    assert first.fault is not None
    assert (first.fault.code, first.fault.detail) == (
        "malformed",
        "the answer has a part of type 'video_url', which is not read",
    )
    assert isinstance(first.rejected, PlainText)
    assert json.loads(first.rejected.text) == part


async def test_emoji_whose_halves_come_in_two_chunks_is_one_character(
    platform: AgentService,
) -> None:
    turn = await ask(platform, build_frames({"content": "Good \ud83d"}, {"content": "\ude00 day"}))
    assert turn["reply"] == "Good \U0001f600 day"


async def test_timeouts_of_a_blueprint_and_a_profile_end_a_silent_call(
    platform: AgentService,
) -> None:
    policies = f"{SHIPPED_RETRIES.replace('5', '0')}  timeouts: {{first_token: 3000}}\n"
    profile = "  llm_only:\n"
    edits = {SHIPPED_RETRIES: policies, profile: f"{profile}    timeouts: {{first_token: 0.2}}\n"}
    platform.copy_shipped_blueprint("uderia", "uderia-hasty", edits)
    session = await platform.open_shipped_session("uderia-hasty", attributes={}, profile="llm_only")
    turn = await platform.submit_turn(session, ModelSilence())
    assert (turn["status"], turn["reason"]) == ("failed", "timeout_first_token")


@pytest.mark.parametrize("word", ["", "null"])
async def test_half_an_answer_whose_chunks_say_that_nothing_ended_is_not_whole(
    platform: AgentService, word: str
) -> None:
    chunk = {"choices": [{"delta": {"content": "Half of"}, "finish_reason": word}]}
    half = RawFrames((f"data: {json.dumps(chunk)}\n\n".encode(),))
    turn = await ask(platform, half)
    assert (turn["status"], turn["reply"]) == ("completed", "Good day."), "the second answer"
    first, _ = await platform.load_events(turn["session"], AttemptEnded)
    assert first.fault is not None
    assert first.fault.code in {"incomplete", "disconnected"}


@pytest.mark.parametrize(
    ("policy", "status", "attempts"),
    [("empty_reply: fail", "failed", 1), ("empty_reply: accept", "completed", 1)],
)
async def test_policy_of_empty_replies_decides_where_a_server_reports_no_usage_too(
    platform: AgentService, policy: str, status: str, attempts: int
) -> None:
    chunk = {"choices": [{"delta": REASONING, "finish_reason": "stop"}]}
    lines = (json.dumps(chunk), "[DONE]")
    silent = RawFrames(tuple(f"data: {each}\n\n".encode() for each in lines))
    turn = await ask(platform, silent, policy)
    assert turn["status"] == status
    assert len(await platform.load_events(turn["session"], AttemptStarted)) == attempts
