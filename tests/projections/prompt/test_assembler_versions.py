"""What a call on record is assembled with: the rules of the version that recorded it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.sessions.prompt_assembly import (
    REPLY_CALL,
    assemble_next_prompt,
    open_with_blueprint,
    parse_blueprint,
)
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt
from turnlog.projections.session.commands import CancelTurn, FailBrokenTurn
from turnlog.projections.session.open_turn import CutReply
from turnlog.projections.session.rules.steps.outcome_rules import (
    BROKEN_REPLY_LINE,
    STOPPED_REPLY_LINE,
)
from turnlog.projections.testing import (
    CommandOrFactory,
    SessionScenario,
    build_exchange,
    claim_turn,
    submit_turn,
)

BLUEPRINT = parse_blueprint("""
blueprint: guide
version: 1
layers:
  persona: {text: You are a guide.}
calls:
  reply:
    messages: [{system: [persona]}, {history: recent}, {user: [input]}]
    budget: window
history: {recent: {}}
budget:
  window:
    tokens: 60
    counter: {chars_per_token: 1}
    ladder: [trim: {layer: input, chars: [30]}]
profiles: {chat: {default: true, call: reply}}
""")

UNLIMITED = BLUEPRINT.model_copy(
    update={"calls": {"reply": BLUEPRINT.calls["reply"].model_copy(update={"budget": None})}}
)


def assemble_by_version(
    session: SessionScenario, assembler: int, blueprint: Blueprint = UNLIMITED
) -> AssembledPrompt:
    call = replace(REPLY_CALL, assembler=assembler)
    return assemble_next_prompt(session, blueprint, {}, call)


@pytest.mark.parametrize(
    ("cut", "line"),
    [
        (CancelTurn(cut=CutReply("keep_partial", "Hel")), STOPPED_REPLY_LINE),
        (FailBrokenTurn(2, Policies(deadline_seconds=1e-6), "Hel"), BROKEN_REPLY_LINE),
    ],
)
def test_turns_that_were_cut_are_in_prompts_from_version_6_on(
    cut: CommandOrFactory, line: str
) -> None:
    session = open_with_blueprint(UNLIMITED, {})
    session = session.apply_steps(
        *build_exchange("Hi", "Hello."), submit_turn("More"), claim_turn()
    )
    session = session.apply_steps(cut, submit_turn("Go on."))
    contents = {
        version: [each.content for each in assemble_by_version(session, version).request.messages]
        for version in (5, 6, 7)
    }
    whole = ["You are a guide.", "Hi", "Hello."]
    assert contents[5] == [*whole, "Go on."]
    assert contents[6] == [*whole, "More", f"Hel\n\n{line}", "Go on."]
    assert contents[7] == contents[6]


@pytest.mark.parametrize(
    ("text", "before", "since"),
    [
        (
            "यह पहला वाक्य है। दूसरा लम्बा वाक्य है। तीसरा।",
            "यह पहला वाक्य है। दूसरा लम्बा",
            "यह पहला वाक्य है।",
        ),
        (
            "Is this the first one? This one is longer than that.",
            "Is this the first one?",
            "Is this the first one?",
        ),
    ],
)
def test_sentences_of_every_script_are_trimmed_at_their_ends_from_version_7_on(
    text: str, before: str, since: str
) -> None:
    session = open_with_blueprint(BLUEPRINT, {}).apply_steps(submit_turn(text))
    for version, expected in ((6, before), (7, since)):
        found = assemble_by_version(session, version, BLUEPRINT)
        assert found.request.messages[-1].content == expected
