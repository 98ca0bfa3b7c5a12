"""Whole prompts with their manifest parts for people to read, one file a variant.

The test writes a missing file and then fails: read the file and commit it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.parts.windows import assembled, blueprint_of, drawn, opened_by
from turnlog.events.manifest import (
    FromBlob,
    FromBlueprint,
    FromEvent,
    FromResolved,
    FromSegment,
    FromTurns,
    Part,
)
from turnlog.events.turn import TurnFailed
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.session.commands import CancelTurn, ExcludeTurn, RedactReply
from turnlog.projections.testing import Step, exchange, saying
from turnlog.projections.window.call import Assembled

GOLDEN = Path(__file__).with_name("golden")

BLUEPRINT = """\
blueprint: guide
version: 1
attributes:
  language: {type: text, default: English}
  instructions: {type: text}
  player: {type: map}
layers:
  persona: {file: persona.md, keep: always}
  provider: {file: "{provider}.md"}
  language: {text: "Always answer in {language}.", keep: always}
  welcome: {text: "Greet the visitor.", when: first_turn}
  instructions: {attribute: instructions, component: instructions}
  player: {attribute: player, component: player}
  reminder: {text: "Answer in one sentence."}
calls:
  reply:
    messages:
      - system: [persona, provider, language, welcome, instructions]
      - history: recent
      - user: [player, input, reminder]
    budget: window
history:
  recent: {max_turns: 4}
budget:
  window: {tokens: 100, ladder: [{drop_oldest_pairs: {history: recent}}]}
profiles:
  chat: {default: true, call: reply}
"""

ROOMY = blueprint_of(BLUEPRINT)
TIGHT = blueprint_of(BLUEPRINT.replace("tokens: 100", "tokens: 60"))
FREE = blueprint_of(
    BLUEPRINT.replace("    budget: window\n", "").replace("max_turns: 4", "all: true")
    .replace("ladder: [{drop_oldest_pairs: {history: recent}}]", "ladder: []")
)  # fmt: skip

PERSONA = "You are a guide to the city.\nYou never leave it."
FULL = {"persona": PERSONA, "provider": "Use short sentences."}
SPARSE = {"persona": PERSONA}

WALK = (*exchange("Where is the river?", "South of here."), *exchange("And the hill?", "North."))
ON = (*exchange("Is it far?", "An hour."), *exchange("By train?", "Ten minutes."))
NEXT = saying("What does it cost?")
FAILED = (
    saying("Hm?"),
    TurnFailed(turn=3, code="deadline", detail="late", retryable=True),
    saying("Well?"),
    CancelTurn(),
)


def toured(
    *steps: Step,
    blueprint: Blueprint = ROOMY,
    files: dict[str, str] = FULL,
    **attributes: JsonValue,
) -> Assembled:
    given = {"language": "English", **attributes}
    return assembled(opened_by(blueprint, files, **given).later(*steps), blueprint, files)


VARIANTS = {
    "full": lambda: toured(
        *WALK,
        NEXT,
        language="French",
        instructions="Mention no prices.",
        player={"name": "Ada", "age": 36},
    ),
    "sparse": lambda: toured(NEXT, files=SPARSE),
    "empty input": lambda: toured(*WALK, saying("")),
    "no open turn": lambda: toured(*WALK),
    "withheld and excluded": lambda: toured(
        *WALK, *ON, ExcludeTurn(3), RedactReply(2, "wrong", "operator", "(Withheld.)"), NEXT
    ),
    "failed and cancelled": lambda: toured(*WALK, *FAILED, NEXT),
    "more turns than the view holds": lambda: toured(*WALK, *ON, *WALK, NEXT),
    "cut to the budget": lambda: toured(*WALK, *ON, NEXT, blueprint=TIGHT),
    "without a budget": lambda: toured(*WALK, *ON, *WALK, NEXT, blueprint=FREE),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_prompt_and_its_account_are_as_they_were(variant: str) -> None:
    file = GOLDEN / f"{variant.replace(' ', '-')}.txt"
    found = text(VARIANTS[variant]())
    if not file.exists():
        file.write_text(found)
        pytest.fail(f"{file.name} is new: read it, and commit it")
    assert found == file.read_text()


def test_no_golden_file_is_left_that_nobody_draws() -> None:
    drawn = {f"{variant.replace(' ', '-')}.txt" for variant in VARIANTS}
    assert {file.name for file in GOLDEN.iterdir()} == drawn


def text(found: Assembled) -> str:
    manifest = found.manifest
    tokens = f"{manifest.tokens} of {manifest.budget} tokens by {manifest.counter.name}"
    lines = [f"{manifest.kind}: {tokens}", *map(_line, manifest.parts), manifest.digest]
    return drawn(found.request) + "════\n" + "\n".join(lines) + "\n"


def _line(part: Part) -> str:
    place = "   -" if part.message is None else f"{part.message:4}"
    what = f"{part.layer}/{part.component}"
    rule = f" ({part.rule})" if part.rule else ""
    return f"{place} {what:30} {part.tokens:4} {part.treatment}{rule} {_source(part)}".rstrip()


def _source(part: Part) -> str:
    match part.source:
        case None:
            return ""
        case FromTurns(view=view, first=first, last=last):
            return f"{view} {first}-{last}"
        case FromEvent(sequence=sequence, field=field):
            return f"event {sequence} {field}"
        case FromResolved(resolution=sequence, lines=lines):
            return f"event {sequence} {', '.join(lines.values())}"
        case FromSegment(segment=segment, version=version):
            return f"segment {segment} version {version}"
        case FromBlob(path=path):
            return path
        case FromBlueprint():
            return "blueprint"
