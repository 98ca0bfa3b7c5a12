"""A safety rule guards every text of the shipped `uderia`, and not its replies only.

`uderia` ships without rules, so the test adds a safety section to a copy of it. A text that breaks
the rule is on no event route and in no later prompt, wherever a model or a tool put it, and neither
is a plain digest of it.
"""

from __future__ import annotations

import json

import pytest

from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.support.servers.model_behaviours import ModelBehaviour
from turnlog.events.content import compute_digest, decode_withheld_text
from turnlog.events.model.memory_events import SummaryFailed
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.tool_events import ToolReturned
from turnlog.services.media.incoming_media import IncomingMedia

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "ada@ships.example"

RULE = r"""
  safety:
    rules:
      - {name: contact-details, pattern: '[a-z]+@[a-z]+\.[a-z]+'}
"""

GUARDED = "uderia-guarded"

LOOK = ("Look at the boats.", ["harbour_look"])


async def open_guarded_session(platform: AgentService, profile: str = "tool_enabled") -> str:
    changes = {
        "policies:\n": f"policies:{RULE}",
        "\ntools:\n": "\ntools:\n  most_bytes: 1000\n",
    }
    platform.copy_shipped_blueprint("uderia", GUARDED, changes)
    return await platform.open_shipped_session(GUARDED, attributes={}, profile=profile)


async def require_withheld_everywhere(platform: AgentService, session: str, *texts: str) -> None:
    """Require that no event has the secret, or a plain digest of one of these texts."""
    stored = b"\n".join(each.stored for each in await platform.load_recorded_events(session))
    shown = (await platform.http.get(f"/v1/sessions/{session}/events?limit=1000")).content
    history = (await platform.http.get(f"/v1/sessions/{session}/history")).content
    for content in (stored, shown, history):
        assert SECRET.encode() not in content
        for text in (SECRET, *texts):
            assert compute_digest(text).encode() not in content


BY_STAGE: dict[str, tuple[ModelBehaviour, ...]] = {
    "plan": (answer_with_plan((f"Write to {SECRET}.", ["harbour_look"])),),
    "escaped plan": (
        answer_with_text(
            json.dumps({"steps": [{"goal": f"Write to {SECRET}.", "tools": []}]}).replace(
                "@", "\\u0040"
            )
        ),
    ),
    "tactic": (answer_with_plan(LOOK), answer_with_text(SECRET)),
    "arguments": (
        answer_with_plan(LOOK),
        answer_with_tool_calls(("harbour_look", {"what": SECRET})),
    ),
    "reply": (answer_with_plan(LOOK), answer_with_text("Nothing."), answer_with_text(SECRET)),
}


@pytest.mark.parametrize("stage", BY_STAGE)
async def test_turn_completes_redacted_if_model_output_breaks_a_rule(
    platform: AgentService, stage: str
) -> None:
    session = await open_guarded_session(platform)
    settled = await platform.submit_turn(session, *BY_STAGE[stage], text="Whom do I ask?")
    assert (settled["status"], settled["redacted"]) == ("completed", True)
    (redacted,) = await platform.load_events(session, ReplyRedacted)
    assert redacted.rule == "contact-details"
    await require_withheld_everywhere(platform, session)
    tenant = (await platform.load_recorded_events(session))[0].tenant
    blob = await platform.backend.blobs.get_blob(tenant, redacted.withheld or "")
    text = decode_withheld_text(blob)
    assert SECRET in text.replace("\\u0040", "@")
    await require_withheld_everywhere(platform, session, text)
    assert platform.shop.tool_calls == []


async def test_tool_result_that_breaks_a_rule_is_replaced_before_it_is_recorded(
    platform: AgentService,
) -> None:
    session = await open_guarded_session(platform)
    platform.shop.results = [f"Ask {SECRET}"]
    answers = (
        answer_with_plan(LOOK),
        answer_with_tool_calls(("harbour_look", {"what": "boats"})),
        answer_with_text("I cannot say."),
    )
    await platform.complete_turn(session, *answers, text="Whom do I ask?")
    (returned,) = await platform.load_events(session, ToolReturned)
    assert "withheld by the rule contact-details" in str(returned.text)
    await require_withheld_everywhere(platform, session, f"Ask {SECRET}")
    assert SECRET not in str(platform.bodies)


LARGE_FILES = {
    "name": IncomingMedia(b"Who is who", "text/plain", f"{SECRET}.txt"),
    "type": IncomingMedia(b"Who is who", f"text/{SECRET}", "people.txt"),
    "neither": IncomingMedia(b"Who is who", "text/plain", "people.txt"),
}
"""What a tool returns beside a text that is too large, by what breaks the rule."""


@pytest.mark.parametrize("place", LARGE_FILES)
async def test_file_beside_an_oversized_result_is_kept_only_if_its_name_breaks_no_rule(
    platform: AgentService, place: str
) -> None:
    file = LARGE_FILES[place]
    platform.shop.results = [f"({file.name}, {file.media_type})\n" + "much " * 1_000]
    platform.shop.media = (file,)
    session = await open_guarded_session(platform)
    answers = (
        answer_with_plan(LOOK),
        answer_with_tool_calls(("harbour_look", {"what": "boats"})),
        answer_with_text("I cannot say."),
    )
    await platform.complete_turn(session, *answers, text="Whom do I ask?")
    (returned,) = await platform.load_events(session, ToolReturned)
    breaks = place != "neither"
    assert ("withheld by the rule contact-details" in str(returned.text)) is breaks
    assert ("1000 are allowed" in str(returned.text)) is not breaks
    assert [part.name for part in returned.parts] == ([] if breaks else ["people.txt"])
    await require_withheld_everywhere(platform, session)
    assert SECRET not in str(platform.bodies)


async def test_summary_that_breaks_a_rule_is_discarded_and_the_turn_continues(
    platform: AgentService,
) -> None:
    session = await open_guarded_session(platform, "llm_only")
    for number in range(4):
        reply = f"Of {number}: " + f"there is much to tell of it, as of {number * 7}. " * 100
        await platform.complete_turn(session, answer_with_text(reply), text=f"Topic {number}?")
    answers = (answer_with_text(f"They wrote to {SECRET}."), answer_with_text("That is all."))
    await platform.complete_turn(session, *answers, text="And now?")
    (failed,) = await platform.load_events(session, SummaryFailed)
    assert failed.code == "withheld"
    await require_withheld_everywhere(platform, session, f"They wrote to {SECRET}.")
    assert SECRET not in str(platform.bodies)
