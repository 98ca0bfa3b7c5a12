"""U27: answers that must match a JSON schema: repaired, or requested again."""

from __future__ import annotations

import json

import pytest

from tests.agent_programs.agent_harness import build_agent_blueprint
from tests.agent_programs.agent_service import AgentService, answer_with_plan, answer_with_text
from turnlog.events.content import PlainText
from turnlog.events.model.call_events import AttemptEnded, CallCompleted, ContextAssembled
from turnlog.events.model.session_events import SessionOpened
from turnlog.events.model.tool_events import StepPlanned
from turnlog.events.model.turn_events import TurnCompleted, TurnFailed
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, encode_blueprint

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCHEMA = {
    "type": "object",
    "required": ["mood"],
    "properties": {"mood": {"type": "string"}, "reasons": {"type": "array"}},
}


def build_json_blueprint(**output: object) -> Blueprint:
    """Return a blueprint whose replies are JSON."""
    return Blueprint.model_validate(
        {
            "blueprint": "teller",
            "version": 1,
            "layers": {"rules": {"text": "Say how it feels."}},
            "calls": {
                "reply": {
                    "messages": [
                        {"system": ["rules"]},
                        {"history": "recent"},
                        {"user": ["input"]},
                    ],
                    "output": {"schema": SCHEMA} | output,
                }
            },
            "history": {"recent": {}},
            "policies": {
                "retries": {"base_seconds": 0, "max": 1},
                "safety": {"rules": [{"name": "gloom", "pattern": "gloom"}]},
            },
            "profiles": {"one": {"default": True, "call": "reply"}},
        }
    )


MENDED = {
    '```json\n{"mood": "fine"}\n```': ('{"mood": "fine"}', "taken out of a block of code"),
    'Well, {"mood": "fine"}.': ('{"mood": "fine"}', "taken out of the text around it"),
    '{"mood": "fi\x07ne"}': ('{"mood": "fine"}', "control characters taken out"),
    '{"mood": 7}': ('{"mood": "7"}', "mood: a number for a text"),
    '{"mood": "fine", "reasons": "sun"}': (
        '{"mood": "fine", "reasons": ["sun"]}',
        "reasons: one for a list",
    ),
}


@pytest.mark.parametrize("written", MENDED)
async def test_u27_nearly_valid_reply_is_repaired_and_original_and_repair_are_recorded(
    platform: AgentService, written: str
) -> None:
    mended, repair = MENDED[written]
    session = await platform.open_session(build_json_blueprint())
    await platform.complete_turn(session, answer_with_text(written))
    (completed,) = await platform.load_events(session, CallCompleted)
    assert (completed.text, completed.repairs) == (PlainText(text=written), (repair,))
    (reply,) = await platform.load_events(session, TurnCompleted)
    assert reply.text == PlainText(text=mended)
    await platform.complete_turn(
        session, answer_with_text('{"mood": "as before"}'), text="And now?"
    )
    assert platform.get_request_texts(1)[2] == mended


async def test_u27_valid_reply_is_kept_as_written(platform: AgentService) -> None:
    session, written = await platform.open_session(build_json_blueprint()), '{ "mood":"fine" }'
    await platform.complete_turn(session, answer_with_text(written))
    (completed,) = await platform.load_events(session, CallCompleted)
    assert (completed.text, completed.repairs) == (None, ())
    (reply,) = await platform.load_events(session, TurnCompleted)
    assert reply.text == PlainText(text=written)


async def test_u27_turn_stream_contains_only_the_repaired_reply(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_json_blueprint())
    await platform.complete_turn(session, answer_with_text("So: ", '{"mood": ', '"fine"}', "."))
    async with platform.watch_turn(session) as watched:
        received = await watched.read_all()
    assert [each.name for each in received] == ["token", "done"]
    assert received[0].json["text"] == '{"mood": "fine"}'
    published = await platform.backend.tokens.read_token_events(platform.gateway.tenant, session, 1)
    assert {each.event.kind for each in published} == {"attempt-alive"}


async def test_u27_unrepairable_reply_is_requested_again_before_the_turn_fails(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_json_blueprint())
    await platform.complete_turn(
        session, answer_with_text("I would rather not."), answer_with_text('{"mood": "fine"}')
    )
    await platform.submit_turn(session, answer_with_text('{"mood": true}'), answer_with_text("{}"))
    (failed,) = await platform.load_events(session, TurnFailed)
    assert (failed.code, failed.retryable) == ("malformed", True)
    faults = [
        each.fault for each in await platform.load_events(session, AttemptEnded) if each.fault
    ]
    assert [(each.code, each.retryable) for each in faults] == [("malformed", True)] * 3
    assert [each.detail for each in faults][1:] == [
        'mood: `type` is "string"',
        'it: `required` is ["mood"]',
    ]
    prompts = await platform.load_events(session, ContextAssembled)
    assert [each.supersedes for each in prompts] == [None, "1.1", None, "2.1"]


async def test_u27_without_repair_only_a_valid_reply_is_accepted(platform: AgentService) -> None:
    session = await platform.open_session(build_json_blueprint(repair=False))
    await platform.complete_turn(
        session,
        answer_with_text('```\n{"mood": "fine"}\n```'),
        answer_with_text('{"mood": "fine"}'),
    )
    assert len(platform.bodies) == 2


async def test_u27_reply_is_withheld_if_only_its_repaired_form_breaks_a_safety_rule(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_json_blueprint())
    await platform.submit_turn(session, answer_with_text('{"mood": "glo\x07om"}'))
    assert "reply-redacted" in await platform.list_event_names(session)
    assert "turn-completed" not in await platform.list_event_names(session)


async def test_u27_plan_can_use_a_schema_of_its_author_from_a_pinned_file(
    platform: AgentService,
) -> None:
    calls = json.loads(encode_blueprint(build_agent_blueprint()))["calls"]
    calls["plan"]["output"] = {"schema": "plan.json"}
    step = {"type": "object", "required": ["goal"], "properties": {"goal": {"type": "string"}}}
    form = {
        "type": "object",
        "required": ["why", "steps"],
        "properties": {"why": {"type": "string"}, "steps": {"type": "array", "items": step}},
    }
    file = platform.folder / "agent" / "plan.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(form))
    session = await platform.open_session(build_agent_blueprint(calls=calls))
    file.write_text('{"required": ["something else"]}')
    await platform.complete_turn(
        session,
        answer_with_plan(("Look.", ())),
        answer_with_plan(("Look.", ()), why="It is asked."),
        *(answer_with_text("No."), answer_with_text("Done.")),
    )
    (opened,) = await platform.load_events(session, SessionOpened)
    assert b'"why"' in await platform.backend.blobs.get_blob("agents", opened.blueprint.digest)
    faults = [
        each.fault for each in await platform.load_events(session, AttemptEnded) if each.fault
    ]
    assert [each.detail for each in faults] == ['it: `required` is ["why", "steps"]']
    assert [step.goal for step in await platform.load_events(session, StepPlanned)] == [
        PlainText(text="Look.")
    ]
    file.unlink()
