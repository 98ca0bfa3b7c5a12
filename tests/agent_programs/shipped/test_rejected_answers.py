"""U27: an answer without the required form is recorded, and the next attempt is told what is wrong.

The sessions are of the shipped `uderia`, whose plans have a form, and of copies of it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agent_programs.agent_service import AgentService, answer_with_plan, answer_with_text
from turnlog.events.content import get_plain_text
from turnlog.events.model.call_events import AttemptEnded, ContextAssembled
from turnlog.events.model.redaction_events import ReplyRedacted

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOO_LITTLE = '{"stages": []}'

RULE = r"""
  safety:
    rules:
      - {name: contact-details, pattern: '[a-z]+@[a-z]+\.[a-z]+'}
"""


async def open_planner(platform: AgentService, repair: str = "tell", rules: str = "") -> str:
    """Open a session of `uderia` or of a copy with another policy or a rule."""
    if repair == "tell" and not rules:
        return await platform.open_shipped_session("uderia", attributes={}, profile="tool_enabled")
    name = f"uderia-{repair}{'-guarded' if rules else ''}"
    edits = {"repair: tell": f"repair: {repair}", "policies:\n": f"policies:{rules}\n"}
    platform.copy_shipped_blueprint("uderia", name, edits)
    return await platform.open_shipped_session(name, attributes={}, profile="tool_enabled")


async def list_rejected(platform: AgentService, session: str) -> list[tuple[str | None, str]]:
    ended = await platform.load_events(session, AttemptEnded)
    return [(get_plain_text(each.rejected), each.correction) for each in ended if each.rejected]


@pytest.mark.slow("a turn is retried over HTTP")
async def test_u27_rejected_plan_is_recorded_and_the_next_attempt_is_told_what_is_wrong(
    platform: AgentService,
) -> None:
    session = await open_planner(platform)
    answers = (answer_with_text(TOO_LITTLE), answer_with_plan(), answer_with_text("A thing."))
    await platform.complete_turn(session, *answers, text="What is a log?")
    ((text, correction),) = await list_rejected(platform, session)
    assert text == TOO_LITTLE
    assert '`required` is ["steps"]' in correction
    first, second = platform.bodies[0]["messages"], platform.bodies[1]["messages"]
    assert second == [
        *first,
        {"role": "assistant", "content": TOO_LITTLE},
        {"role": "user", "content": correction},
    ]
    prompts = await platform.load_events(session, ContextAssembled)
    assert [(each.call, each.supersedes) for each in prompts] == [
        ("1.1", None),
        ("1.2", "1.1"),
        ("1.3", None),
    ]
    shown = await platform.fetch_prompt(session, "1.2")
    assert [each["content"] for each in shown["messages"][-2:]] == [TOO_LITTLE, correction]
    assert (await platform.fetch_json(f"/v1/sessions/{session}/verify"))["findings"] == []
    why = await platform.fetch_json(f"/v1/sessions/{session}/calls/1.2/why")
    assert "rejected_answer" in json.dumps(why)
    later: list[dict[str, Any]] = platform.bodies[2]["messages"]
    assert TOO_LITTLE not in json.dumps(later)


@pytest.mark.parametrize("repair", ["repeat", "off"])
async def test_u27_next_attempt_is_asked_the_same_where_the_policy_says_so(
    platform: AgentService, repair: str
) -> None:
    session = await open_planner(platform, repair)
    answers = (answer_with_text(TOO_LITTLE), answer_with_plan(), answer_with_text("A thing."))
    await platform.complete_turn(session, *answers, text="What is a log?")
    assert await list_rejected(platform, session) == [(TOO_LITTLE, "")]
    assert platform.bodies[0]["messages"] == platform.bodies[1]["messages"]


@pytest.mark.slow("a turn is retried twice, after a second and after two")
async def test_u27_every_rejected_answer_is_recorded_and_each_attempt_sees_the_latest(
    platform: AgentService,
) -> None:
    session = await open_planner(platform)
    texts = ['{"stages": 1}', "I would rather not."]
    answers = (*map(answer_with_text, texts), answer_with_plan(), answer_with_text("A thing."))
    await platform.complete_turn(session, *answers, text="What is a log?")
    rejected = await list_rejected(platform, session)
    assert [text for text, _ in rejected] == texts
    assert "there is no JSON in it" in rejected[1][1]
    first, second, third = (body["messages"] for body in platform.bodies[:3])
    assert [each["content"] for each in second[len(first) :]] == [*rejected[0]]
    assert [each["content"] for each in third[len(first) :]] == [*rejected[1]]
    assert (await platform.fetch_json(f"/v1/sessions/{session}/verify"))["findings"] == []


async def test_u27_rejected_answer_goes_with_a_withheld_reply(platform: AgentService) -> None:
    session = await open_planner(platform)
    answers = (answer_with_text(TOO_LITTLE), answer_with_plan(), answer_with_text("A thing."))
    await platform.complete_turn(session, *answers, text="What is a log?")
    body = {"turn": 1, "reason": "private"}
    (await platform.http.post(f"/v1/sessions/{session}/redactions", json=body)).raise_for_status()
    shown = (await platform.http.get(f"/v1/sessions/{session}/events?limit=1000")).text
    assert "stages" not in shown
    path = f"/v1/sessions/{session}/events?limit=1000&stored=true"
    assert "stages" in (await platform.http.get(path)).text


async def test_u27_rejected_answer_that_breaks_a_rule_is_withheld_and_ends_the_turn(
    platform: AgentService,
) -> None:
    session = await open_planner(platform, rules=RULE)
    hidden = '{"stages": "ada\\u0040ships.example"}'
    settled = await platform.submit_turn(session, answer_with_text(hidden), text="Who?")
    assert settled["redacted"]
    assert await platform.load_events(session, ReplyRedacted)
    stored = b"".join(each.stored for each in await platform.load_recorded_events(session))
    assert b"stages" not in stored


async def test_u27_repaired_plan_names_its_repairs_and_asks_nothing_again(
    platform: AgentService,
) -> None:
    session = await open_planner(platform)
    written = "Sure:\n{'steps': [{'goal': 'Look around.', 'tools': [],},], 'st"
    answers = (answer_with_text(written), answer_with_text("Nothing."), answer_with_text("It."))
    await platform.complete_turn(session, *answers, text="What is there?")
    (_, *_), events = platform.bodies, await platform.fetch_json(f"/v1/sessions/{session}/events")
    repairs = next(
        each["data"]["repairs"] for each in events["events"] if each["data"].get("repairs")
    )
    assert repairs == [
        "taken out of the text around it",
        "single quotes replaced",
        "a trailing comma taken out",
        "a cut end closed, what was incomplete left out",
    ]
    assert await list_rejected(platform, session) == []
