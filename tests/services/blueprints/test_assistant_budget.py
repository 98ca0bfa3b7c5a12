"""The budget of the shipped assistant, with pictures and with long conversations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.sessions.prompt_assembly import (
    REPLY_CALL,
    assemble_next_prompt,
    open_with_blueprint,
)
from turnlog.events.content import compute_digest
from turnlog.events.model.content_parts import MediaPart
from turnlog.projections.blueprint.loading.blueprint_source import load_blueprint_source
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt
from turnlog.projections.session.commands import SubmitTurn
from turnlog.projections.testing import (
    SessionScenario,
    build_exchange,
    claim_turn,
    complete_turn,
    submit_turn,
)
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS

ASSISTANT = load_blueprint_source(
    (SHIPPED_BLUEPRINTS / "assistant" / "blueprint.yaml").read_text()
).blueprint

FILES = {"persona": "You are an assistant."}

MODELS = ("openai/gpt-4o-mini", "openai/gpt-4o", "anthropic/claude-sonnet-4-5", "ollama/llava")


def submit_picture(text: str, side: int) -> SubmitTurn:
    picture = MediaPart(
        kind="image",
        digest=compute_digest(text),
        size=9,
        media_type="image/png",
        at=0,
        width=side,
        height=side,
    )
    return SubmitTurn(text=text, policies=Policies(), parts=(picture,))


def assemble_reply(session: SessionScenario, model: str) -> AssembledPrompt:
    return assemble_next_prompt(session, ASSISTANT, FILES, replace(REPLY_CALL, model=model))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("side", [16, 512, 4_000])
def test_first_picture_of_a_session_fits_whatever_its_model_counts(model: str, side: int) -> None:
    session = open_with_blueprint(ASSISTANT, FILES)
    session = session.apply_steps(*build_exchange("Hi", "Hello."), submit_picture("What?", side))
    found = assemble_reply(session, model)
    assert [each.content for each in found.request.messages[1:3]] == ["Hi", "Hello."]
    assert [each.treatment for each in found.manifest.parts if each.layer == "media"] == ["kept"]


def test_picture_is_there_for_the_next_question_and_drops_no_older_turn() -> None:
    session = open_with_blueprint(ASSISTANT, FILES)
    for number in range(5):
        session = session.apply_steps(*build_exchange(f"{number}?", "Yes. " * 200))
    shown = (submit_picture("What is this?", 1_024), claim_turn(), complete_turn("A boat."))
    session = session.apply_steps(*shown, submit_turn("Which colour has it?"))
    found = assemble_reply(session, "openai/gpt-4o-mini")
    assert found.request.messages[1].content == "0?"
    assert [each.treatment for each in found.manifest.parts if each.layer == "media"] == ["kept"]
    assert found.manifest.budget == 120_000


def test_oldest_pictures_of_earlier_turns_are_left_out_before_they_cost_more_than_32_000() -> None:
    session = open_with_blueprint(ASSISTANT, FILES)
    for number in range(3):
        asked = submit_picture(f"Picture {number}?", 1_024)
        session = session.apply_steps(asked, claim_turn(), complete_turn("A boat."))
    session = session.apply_steps(submit_turn("Which was the first?"))
    found = assemble_reply(session, "openai/gpt-4o-mini")
    assert [len(each.media) for each in found.request.messages] == [0, 1, 0, 1, 0, 1, 0, 0]
    notes = [each.note for message in found.request.messages for each in message.media]
    assert notes == [*["(a picture is left out)"] * 2, None]


def test_long_conversation_of_texts_stays_within_8_000_tokens() -> None:
    session = open_with_blueprint(ASSISTANT, FILES)
    for number in range(30):
        session = session.apply_steps(*build_exchange(f"{number}?", "Yes. " * 400))
    session = session.apply_steps(submit_turn("Are you sure?"))
    found = assemble_reply(session, "openai/gpt-4o-mini")
    assert 5_000 < found.manifest.tokens <= 8_000
    assert found.manifest.budget == 8_000
