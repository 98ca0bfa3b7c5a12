"""Whole prompts with their manifest parts for people to read, one file a variant.

The test writes a missing file and then fails: read the file and commit it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.support.sessions.prompt_assembly import (
    assemble_next_prompt,
    draw_prompt,
    open_with_blueprint,
    parse_blueprint,
)
from turnlog.events.model.manifest import (
    BlobSource,
    BlueprintTextSource,
    EventTextSource,
    HistorySource,
    KnowledgeSource,
    ParentInputSource,
    PromptPart,
    ResolutionSource,
    SegmentSource,
)
from turnlog.events.model.turn_events import TurnFailed
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt
from turnlog.projections.session.commands import CancelTurn, ExcludeTurn
from turnlog.projections.session.turn_commands import RedactReply
from turnlog.projections.testing import ScenarioStep, build_exchange, submit_turn

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

ROOMY = parse_blueprint(BLUEPRINT)

TIGHT = parse_blueprint(BLUEPRINT.replace("tokens: 100", "tokens: 60"))

FREE = parse_blueprint(
    BLUEPRINT.replace("    budget: window\n", "").replace("max_turns: 4", "all: true")
    .replace("ladder: [{drop_oldest_pairs: {history: recent}}]", "ladder: []")
)  # fmt: skip

PERSONA = "You are a guide to the city.\nYou never leave it."

FULL = {"persona": PERSONA, "provider": "Use short sentences."}

SPARSE = {"persona": PERSONA}

WALK = (
    *build_exchange("Where is the river?", "South of here."),
    *build_exchange("And the hill?", "North."),
)

ON = (*build_exchange("Is it far?", "An hour."), *build_exchange("By train?", "Ten minutes."))

NEXT = submit_turn("What does it cost?")

FAILED = (
    submit_turn("Hm?"),
    TurnFailed(turn=3, code="deadline", detail="late", retryable=True),
    submit_turn("Well?"),
    CancelTurn(),
)


def build_tour(
    *steps: ScenarioStep,
    blueprint: Blueprint = ROOMY,
    files: dict[str, str] = FULL,
    **attributes: JsonValue,
) -> AssembledPrompt:
    all_attributes = {"language": "English", **attributes}
    return assemble_next_prompt(
        open_with_blueprint(blueprint, files, **all_attributes).apply_steps(*steps),
        blueprint,
        files,
    )


VARIANTS = {
    "full": lambda: build_tour(
        *WALK,
        NEXT,
        language="French",
        instructions="Mention no prices.",
        player={"name": "Ada", "age": 36},
    ),
    "sparse": lambda: build_tour(NEXT, files=SPARSE),
    "empty input": lambda: build_tour(*WALK, submit_turn("")),
    "no open turn": lambda: build_tour(*WALK),
    "withheld and excluded": lambda: build_tour(
        *WALK, *ON, ExcludeTurn(3), RedactReply(2, "wrong", "operator", "(Withheld.)"), NEXT
    ),
    "failed and cancelled": lambda: build_tour(*WALK, *FAILED, NEXT),
    "more turns than the view holds": lambda: build_tour(*WALK, *ON, *WALK, NEXT),
    "cut to the budget": lambda: build_tour(*WALK, *ON, NEXT, blueprint=TIGHT),
    "without a budget": lambda: build_tour(*WALK, *ON, *WALK, NEXT, blueprint=FREE),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_prompt_and_manifest_match_the_golden_file(variant: str) -> None:
    file = GOLDEN / f"{variant.replace(' ', '-')}.txt"
    found = format_prompt(VARIANTS[variant]())
    if not file.exists():
        file.write_text(found)
        pytest.fail(f"{file.name} is new: read it, and commit it")
    assert found == file.read_text()


def test_every_golden_file_belongs_to_a_test_case() -> None:
    drawn = {f"{variant.replace(' ', '-')}.txt" for variant in VARIANTS}
    assert {file.name for file in GOLDEN.iterdir()} == drawn


def format_prompt(found: AssembledPrompt) -> str:
    manifest = found.manifest
    tokens = f"{manifest.tokens} of {manifest.budget} tokens by {manifest.counter.name}"
    lines = [f"{manifest.kind}: {tokens}", *map(_format_part, manifest.parts), manifest.digest]
    return draw_prompt(found.request) + "════\n" + "\n".join(lines) + "\n"


def _format_part(part: PromptPart) -> str:
    place = "   -" if part.message is None else f"{part.message:4}"
    what = f"{part.layer}/{part.component}"
    rule = f" ({part.rule})" if part.rule else ""
    return (
        f"{place} {what:30} {part.tokens:4} {part.treatment}{rule} {_format_source(part)}".rstrip()
    )


def _format_source(part: PromptPart) -> str:
    match part.source:
        case None:
            return ""
        case HistorySource(view=view, first=first, last=last):
            return f"{view} {first}-{last}"
        case EventTextSource(sequence=sequence, field=field):
            return f"event {sequence} {field}"
        case ParentInputSource(session=session, turn=turn, input=name):
            return f"{name} of turn {turn} of {session}"
        case ResolutionSource(resolution=sequence, lines=lines):
            return f"event {sequence} {', '.join(lines.values())}"
        case SegmentSource(segment=segment, version=version):
            return f"segment {segment} version {version}"
        case KnowledgeSource(collection=collection, entry=entry, revision=revision):
            return f"{collection}/{entry} revision {revision}"
        case BlobSource(path=path):
            return path
        case BlueprintTextSource():
            return "blueprint"
