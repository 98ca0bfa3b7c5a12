"""The form of an answer is asked for: by `response_format`, or by words in the prompt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.agent_programs.agent_harness import LOOP_PROFILE, build_loop_blueprint
from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.support.servers.model_behaviours import ModelRefusal
from turnlog.events.content import PlainText, parse_structured_text
from turnlog.events.model.call_events import AttemptEnded, ContextAssembled
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.call_specs import CallSpec
from turnlog.projections.prompt.planned_output import SCHEMA_INSTRUCTION
from turnlog.projections.structured_output.output_requests import OutputRequest
from turnlog.services.model_facts.model_prices import read_shipped_table
from turnlog.services.model_facts.response_formats import ResponseFormats

pytestmark = pytest.mark.asyncio(loop_scope="module")

KNOWN, UNKNOWN = "openai/gpt-4o-mini", "openai/heron"

MOOD: dict[str, Any] = {
    "type": "object",
    "required": ["mood"],
    "additionalProperties": False,
    "properties": {"mood": {"type": "string"}},
}

LOOSE: dict[str, Any] = {
    "type": "object",
    "required": ["mood"],
    "properties": {"mood": {"type": "string", "minLength": 2}, "reasons": {"type": "array"}},
    "allOf": [{"minProperties": 1}],
}
"""A schema with what strict mode forbids: an open object, what may be missing, other words."""

FINE = '{"mood": "fine"}'

BY_LITELLM = f"{read_shipped_table().version.replace('-', ' ', 1)} says that the model takes it"


def build_mood_blueprint(model: str = KNOWN, schema: object = MOOD, **call: object) -> Blueprint:
    """Return a blueprint whose replies are JSON, answered by a model of this name."""
    messages = [{"system": ["rules"]}, {"history": "recent"}, {"user": ["input"]}]
    return Blueprint.model_validate(
        {
            "blueprint": "moods",
            "version": 1,
            "layers": {"rules": {"text": "Say how it feels."}},
            "calls": {"reply": {"messages": messages, "output": {"schema": schema}} | call},
            "history": {"recent": {}},
            "policies": {"retries": {"base_seconds": 0, "max": 1}},
            "profiles": {"one": {"default": True, "call": "reply", "model": model}},
        }
    )


def find_schema_part(prompt: dict[str, Any]) -> dict[str, Any]:
    (part,) = [each for each in prompt["manifest"]["parts"] if each["layer"] == "output_schema"]
    return dict(part)


async def test_capable_model_receives_the_schema_as_response_format(platform: AgentService) -> None:
    session = await platform.open_session(build_mood_blueprint())
    await platform.complete_turn(session, answer_with_text(FINE))
    asked = {"name": "reply", "schema": MOOD, "strict": True}
    (body,) = platform.bodies
    assert body["response_format"] == {"type": "json_schema", "json_schema": asked}
    assert platform.get_request_texts(0) == ["Say how it feels.", "Get me a hammer."]
    prompt = await platform.fetch_prompt(session, "1.1")
    assert prompt["parameters"] == {"response_format": body["response_format"]}
    part = find_schema_part(prompt)
    assert (part["role"], part["rule"]) == ("response_format", BY_LITELLM)
    assert part["tokens"] > 0, "the provider counts it as well"
    assert prompt["manifest"]["tokens"] == sum(
        each["tokens"] for each in prompt["manifest"]["parts"]
    )
    (event,) = await platform.load_events(session, ContextAssembled)
    assert event.parameters == prompt["parameters"]


async def test_model_without_known_support_gets_the_schema_in_its_prompt(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_mood_blueprint(UNKNOWN))
    await platform.complete_turn(session, answer_with_text(FINE))
    (body,) = platform.bodies
    assert "response_format" not in body
    stated = f"Say how it feels.\n\n{SCHEMA_INSTRUCTION}\n{json.dumps(MOOD)}"
    assert platform.get_request_texts(0) == [stated, "Get me a hammer."]
    prompt = await platform.fetch_prompt(session, "1.1")
    assert prompt["messages"][0]["content"] == stated
    assert prompt["parameters"] == {}
    part = find_schema_part(prompt)
    assert (part["role"], part["message"]) == ("system", 0)
    assert part["rule"].endswith("does not say that the model takes it")


@pytest.mark.parametrize("model", [KNOWN, UNKNOWN])
async def test_preview_and_why_show_how_the_schema_is_requested(
    platform: AgentService, model: str
) -> None:
    session = await platform.open_session(build_mood_blueprint(model))
    await platform.complete_turn(session, answer_with_text(FINE))
    role = "response_format" if model == KNOWN else "system"
    window = await platform.fetch_json(f"/v1/sessions/{session}/window")
    assert find_schema_part(window)["role"] == role
    why = await platform.fetch_json(f"/v1/sessions/{session}/calls/1.1/why")
    (origin,) = [each for each in why["parts"] if each["part"]["layer"] == "output_schema"]
    assert origin["part"]["role"] == role
    assert [each["event"] for each in origin["by"]] == ["session-opened"]


async def test_schema_that_strict_mode_forbids_is_sent_without_strict(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_mood_blueprint(schema=LOOSE))
    await platform.complete_turn(session, answer_with_text('{"mood": "fine", "reasons": []}'))
    asked = {"name": "reply", "schema": LOOSE, "strict": False}
    assert platform.bodies[0]["response_format"]["json_schema"] == asked


async def test_schema_that_is_not_an_object_is_stated_in_the_prompt(platform: AgentService) -> None:
    session = await platform.open_session(build_mood_blueprint(schema={"type": "array"}))
    await platform.complete_turn(session, answer_with_text("[]"))
    assert "response_format" not in platform.bodies[0]
    part = find_schema_part(await platform.fetch_prompt(session, "1.1"))
    assert (part["role"], part["rule"]) == ("system", "its schema is no object")


async def test_call_that_offers_tools_states_its_schema_in_the_prompt(
    platform: AgentService,
) -> None:
    messages = [{"user": ["input"]}]
    call = {"messages": messages, "tools": ["all"], "output": {"schema": MOOD}}
    profile = LOOP_PROFILE | {"model": KNOWN}
    blueprint = build_loop_blueprint(calls={"converse": call}, profiles={"agent": profile})
    session = await platform.open_session(blueprint)
    look = answer_with_tool_calls(("shop_look", {"what": "hammer"}))
    turn = await platform.submit_turn(session, look, answer_with_text(FINE))
    assert turn["output"] == {"mood": "fine"}
    assert not any("response_format" in body for body in platform.bodies)
    stated = f"{SCHEMA_INSTRUCTION}\n{json.dumps(MOOD)}"
    assert [body["messages"][0]["content"] for body in platform.bodies] == [stated, stated]
    part = find_schema_part(await platform.fetch_prompt(session, "1.2"))
    assert (part["role"], part["rule"]) == ("system", "it offers tools")


async def test_call_with_its_own_response_format_sends_that_alone(
    platform: AgentService,
) -> None:
    own = {"response_format": {"type": "json_object"}}
    session = await platform.open_session(build_mood_blueprint(parameters=own))
    await platform.complete_turn(session, answer_with_text(FINE))
    assert platform.bodies[0]["response_format"] == own["response_format"]
    prompt = await platform.fetch_prompt(session, "1.1")
    assert {each["layer"] for each in prompt["manifest"]["parts"]} == {"rules", "input"}


class ChangingFormats(ResponseFormats):
    """A table that says otherwise each time it is read."""

    takes_schema = False

    async def choose_request(self, spec: CallSpec, model: str) -> OutputRequest | None:
        del spec, model
        self.takes_schema = not self.takes_schema
        return OutputRequest("response_format" if self.takes_schema else "prompt", "the test")


@pytest.fixture
def changing_table(platform: AgentService) -> Iterator[None]:
    """Give the worker, and only the worker, a table that changes."""
    worker, contexts = platform.worker, platform.worker.contexts
    inputs = replace(contexts.prompt_inputs, response_formats=ChangingFormats())
    worker.contexts = replace(contexts, prompt_inputs=inputs)
    yield
    worker.contexts = contexts


@pytest.mark.usefixtures("changing_table")
async def test_recorded_output_request_is_unaffected_by_a_changed_support_table(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_mood_blueprint(UNKNOWN))
    refusal = ModelRefusal(status=500)
    await platform.complete_turn(session, refusal, answer_with_text(FINE))
    assert ["response_format" in body for body in platform.bodies] == [True, True]
    assert len(await platform.load_events(session, ContextAssembled)) == 1
    await platform.complete_turn(session, answer_with_text(FINE))
    assert "response_format" not in platform.bodies[2]
    for call, role in (("1.1", "response_format"), ("2.1", "system")):
        prompt = await platform.fetch_prompt(session, call)
        assert find_schema_part(prompt)["role"] == role
        assert prompt["assembly"]["outcome"] == "reproduced"


async def test_refused_response_format_fails_with_its_own_code_and_a_fix(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_mood_blueprint())
    message = "Invalid schema for response_format 'reply': a secret of the provider"
    refusal = ModelRefusal(status=400, message=message, type="invalid_request_error")
    turn = await platform.submit_turn(session, refusal)
    assert (turn["status"], turn["reason"]) == ("failed", "response_format_refused")
    (ended,) = await platform.load_events(session, AttemptEnded)
    assert ended.fault is not None
    assert not ended.fault.retryable
    assert ended.fault.detail == (
        "the provider refuses the schema of the answer (HTTP 400 invalid_request_error): "
        f"set TURNLOG_RESPONSE_FORMAT={KNOWN}=no, so that the prompt states it"
    )


async def test_refused_response_format_of_the_blueprint_names_the_parameter_to_correct(
    platform: AgentService,
) -> None:
    own = {"response_format": {"type": "json_object"}}
    session = await platform.open_session(build_mood_blueprint(parameters=own))
    await platform.submit_turn(session, ModelRefusal(status=400, message="no response_format here"))
    (ended,) = await platform.load_events(session, AttemptEnded)
    assert ended.fault is not None
    assert ended.fault.detail.endswith("correct `response_format` among the call's `parameters`")


async def test_refusal_that_only_quotes_response_format_is_a_bad_request(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_mood_blueprint(UNKNOWN))
    turn = await platform.submit_turn(
        session, ModelRefusal(status=400, message="you wrote: response_format")
    )
    assert turn["reason"] == "bad_request"


async def test_structured_value_is_in_answer_history_and_end_of_stream(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_mood_blueprint())
    turn = await platform.submit_turn(session, answer_with_text(f"```json\n{FINE}\n```"))
    assert (turn["reply"], turn["output"]) == (FINE, {"mood": "fine"})
    history = await platform.fetch_json(f"/v1/sessions/{session}/history")
    assert [each["output"] for each in history["turns"]] == [{"mood": "fine"}]
    async with platform.watch_turn(session) as watched:
        received = await watched.read_all()
    assert (received[-1].name, received[-1].json["output"]) == ("done", {"mood": "fine"})
    (event,) = await platform.load_events(session, TurnCompleted)
    assert event.structured
    assert event.text == PlainText(text=FINE)
    assert parse_structured_text(event.text) == {"mood": "fine"}


async def test_redacted_reply_has_no_structured_value(platform: AgentService) -> None:
    session = await platform.open_session(build_mood_blueprint())
    await platform.complete_turn(session, answer_with_text('{"mood": "gloomy"}'))
    form = {"turn": 1, "reason": "unkind"}
    answer = await platform.http.post(f"/v1/sessions/{session}/redactions", json=form)
    assert answer.status_code == 200, answer.text
    history = await platform.fetch_json(f"/v1/sessions/{session}/history")
    assert [each["output"] for each in history["turns"]] == [None]
    events = (await platform.http.get(f"/v1/sessions/{session}/events")).text
    assert "gloomy" not in events
    assert '"structured"' not in events


async def test_reply_without_a_schema_has_no_structured_value(platform: AgentService) -> None:
    session = await platform.open_session(build_mood_blueprint(output=None))
    turn = await platform.submit_turn(session, answer_with_text(FINE))
    assert (turn["reply"], turn["output"]) == (FINE, None)
    (event,) = await platform.load_events(session, TurnCompleted)
    assert not event.structured
