"""What an attempt records fits into one message and its output rules, whatever its model sends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.sessions.puppet_model import PuppetModel, build_finish
from tests.support.sessions.session_harness import SessionHarness
from turnlog.events.recorded_reasoning import CUT_MARK, parse_reasoning
from turnlog.events.store.memory_log import MemoryMediaStore
from turnlog.events.tokens import TOKEN_EVENT
from turnlog.projections.session.rules.attempt_events import UNKNOWN_USAGE
from turnlog.services.worker.attempts.active_attempt import (
    ActiveAttempt,
    SentCall,
    start_attempt,
)
from turnlog.services.worker.attempts.answer_parts import AnswerMediaIntake
from turnlog.services.worker.attempts.output_guard import GuardViolation, OutputGuard
from turnlog.services.worker.media_room import MediaRoom
from turnlog.services.worker.model.model_types import ModelRequest, ModelToolCall, ReasoningDelta
from turnlog.services.worker.turn_context import open_context

MESSAGE_BYTES = 1_000_000
"""A message of NATS has 48 kB more, for headers."""


async def start_reply(guard: OutputGuard | None = None) -> ActiveAttempt:
    house = SessionHarness()
    await house.open_session()
    await house.submit_turn("Hi")
    state = await house.load_state()
    assert state.open is not None
    material = await house.blueprints.load_material(state)
    active = start_attempt(open_context(state, state.open, material), house.tokens)
    active.progress.guard = guard or active.progress.guard
    return active


@pytest.mark.parametrize("length", [1_000, 400_000])
async def test_long_reasoning_beside_long_arguments_fits_into_the_closing_message(
    length: int,
) -> None:
    active = await start_reply()
    piece = ReasoningDelta({"reasoning_content": "I look. " * 100_000}, "")
    active.progress.reasoning.add_piece(piece.fields)
    calls = (ModelToolCall("c-1", "look", "a" * length),)
    end = active.progress.finished = replace(build_finish(), tool_calls=calls)
    closing = active.build_closing_message(end, UNKNOWN_USAGE)
    assert len(TOKEN_EVENT.dump_json(closing)) < MESSAGE_BYTES
    reasoned = parse_reasoning(closing.reasoning or "")
    assert reasoned is not None
    assert (CUT_MARK in reasoned) == (length > 100_000)


async def find_secret(text: str) -> str | None:
    return "it names the secret" if "secret" in text else None


@pytest.mark.parametrize("escaped", [r"secret", r"\u0073ecret"], ids=["plain", "escaped"])
@pytest.mark.parametrize("place", ["arguments", "signature"])
async def test_output_rules_read_what_stands_beside_a_tool_call(place: str, escaped: str) -> None:
    said = f'{{"a": "{escaped}"}}'
    call = replace(ModelToolCall("c-1", "look", "{}"), **{place: said})
    model = PuppetModel(end=replace(build_finish(), tool_calls=(call,)))
    active = await start_reply(OutputGuard(hold_back="none", rules=(("secrets", find_secret),)))
    sent = SentCall(active.attempt, ModelRequest(model="m", messages=()))
    found = await active.stream_answer(
        sent, model, AnswerMediaIntake(MemoryMediaStore(), MediaRoom())
    )
    assert found == GuardViolation("secrets", "it names the secret")
