"""Every ladder step alone and all together, as whole prompts for people to read.

The test writes a missing file and then fails: read the file and commit it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.support.sessions.game_master_turns import (
    GAME_MASTER,
    GameMasterTurn,
    build_segment,
    replace_budget,
    replace_ladder,
)
from tests.support.sessions.prompt_assembly import draw_prompt
from turnlog.events.model.manifest import PromptPart, SegmentSource
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt
from turnlog.projections.prompt.budget.budget_error import BudgetExceeded
from turnlog.projections.prompt.sources.layer_content import LayerBlock

GOLDEN = Path(__file__).with_name("ladders")

SEGMENTS = (
    build_segment(1, "core", "Speak in the second person."),
    build_segment(2, "ruleset", "A six succeeds."),
    build_segment(3, "world", "Fog lies on the coast."),
    build_segment(4, "entry", "You stand at a gate."),
    build_segment(5, "npc", "The guard is bored.", "guard", priority="high"),
    build_segment(6, "npc", "He takes bribes.", "guard", tier=1),
    build_segment(7, "npc", "He serves the count.", "guard", tier=2),
    build_segment(8, "npc", "He shrugs.", "guard", type="npc_cue"),
    build_segment(9, "npc", "The dog barks.", "dog", priority="low"),
    build_segment(10, "npc", "The dog knows you.", "dog", tier=1, priority="low"),
)

INPUTS: dict[str, JsonValue] = {
    "game_state": "It is night. The bell has rung twice. Nobody came.",
    "npcs": [{"npc": "guard", "tier": 2}, {"npc": "dog", "tier": 1}],
    "first_turn": False,
}

TALE = GameMasterTurn(
    segments=SEGMENTS, text="I knock. I wait a little. Then I knock again, louder.", inputs=INPUTS
)

TOGETHER = (600, 500, 420, 270, 240, 200, 170, 150, 130, 115, 100)

NPC: JsonValue = {"layer": "npc"}

STEPS: dict[str, JsonValue] = {
    "trim": {"trim": {"layer": "input", "chars": [40, 12]}},
    "trim at a word": {"trim": {"layer": "input", "chars": [5], "at": "word"}},
    "compress": {"compress": {"layer": "game_state", "chars": 30}},
    "compress to a cue": {
        "compress": {"layer": "game_state", "chars": 400, "cue": {"text": "[cut]"}}
    },
    "lower tier": {"lower_tier": NPC},
    "drop lowest": {"drop_lowest": NPC},
    "replace": {"replace": {"layer": "npc", "with": {"type": "npc_cue"}}},
    "drop": {"drop": {"layer": "world"}},
}


def apply_step_fully(step: JsonValue) -> AssembledPrompt:
    """Give the prompt after a step has done all that it can, and no token less."""
    limit = 1
    for _ in range(2):
        try:
            return replace(TALE, blueprint=replace_ladder([step], limit)).assemble_prompt()
        except BudgetExceeded as over:
            limit = over.tokens
    raise AssertionError("a prompt of just this many tokens does not fit them")


@pytest.mark.parametrize("step", STEPS)
def test_single_trim_step_matches_its_golden_file_until_it_is_exhausted(step: str) -> None:
    compare_with_golden(step, apply_step_fully(STEPS[step]))


@pytest.mark.parametrize("tokens", TOGETHER)
def test_trim_steps_are_applied_in_order_and_only_as_many_as_needed(
    tokens: int,
) -> None:
    long = {"game_state": " ".join(["It is night. The bell has rung twice."] * 15)}
    inputs = {**INPUTS, **long, "token_budget": tokens, "npc_token_budget": 25}
    compare_with_golden(
        f"all within {tokens}", replace(TALE, text=TALE.text * 20, inputs=inputs).assemble_prompt()
    )


def test_prompt_within_its_budget_is_unchanged() -> None:
    found = TALE.assemble_prompt()
    assert found.manifest.steps == ()
    assert all(part.treatment in {"kept", "absent"} for part in found.manifest.parts)


def test_prompt_that_cannot_fit_is_refused_with_the_sizes_of_required_layers() -> None:
    with pytest.raises(BudgetExceeded) as refused:
        replace(TALE, inputs={**INPUTS, "token_budget": 20}).assemble_prompt()
    over = refused.value
    assert (over.code, over.field, over.limit) == ("over-budget", "budget", 20)
    assert [size.layer for size in over.required_layers] == ["core", "ruleset", "input"]
    assert over.tokens > 20
    assert f"by {over.tokens - 20} tokens" in over.fix


def test_prompt_that_its_ladder_cannot_fit_may_have_its_overflow_and_not_more() -> None:
    own: list[JsonValue] = [{"drop": {"layer": "world"}}]
    free = replace(TALE, blueprint=replace_ladder(own, 10_000)).assemble_prompt().manifest.tokens

    def assemble_within(tokens: int) -> AssembledPrompt:
        overflow: JsonValue = {"tokens": tokens, "ladder": [{"drop": {"layer": "entry"}}]}
        blueprint = replace_budget(tokens=50, ladder=own, overflow=overflow)
        return replace(TALE, blueprint=blueprint).assemble_prompt()

    taken = {
        tokens: [step.step + " " + step.on for step in assemble_within(tokens).manifest.steps]
        for tokens in (free, free - 20)
    }
    assert taken == {free: ["drop world"], free - 20: ["drop world", "drop entry"]}
    assert assemble_within(free).manifest.budget == free
    with pytest.raises(BudgetExceeded) as refused:
        assemble_within(60)
    assert refused.value.limit == 60


def test_section_that_no_step_shortens_enough_is_refused_with_its_name() -> None:
    budget = GAME_MASTER.budget["prompt"]
    section = budget.sections["npc"].model_copy(update={"ladder": ()})
    changed = budget.model_copy(update={"sections": {"npc": section}})
    blueprint = GAME_MASTER.model_copy(update={"budget": {"prompt": changed}})
    turn = replace(TALE, blueprint=blueprint, inputs={**INPUTS, "npc_token_budget": 3})
    with pytest.raises(BudgetExceeded) as refused:
        turn.assemble_prompt()
    assert refused.value.of.section == "npc"
    assert [size.layer for size in refused.value.sizes] == ["npc"]


def test_step_that_would_not_shorten_the_prompt_is_skipped() -> None:
    longer = build_segment(8, "npc", "He shrugs, " * 40, "guard", type="npc_cue")
    segments = tuple(longer if each.source.segment == 8 else each for each in SEGMENTS)
    steps = [STEPS["replace"], STEPS["drop"]]
    turn = replace(TALE, segments=segments, blueprint=replace_ladder(steps, 135))
    found = turn.assemble_prompt()
    assert [step.step for step in found.manifest.steps] == ["drop"]


def test_registered_step_is_applied_like_a_built_in_one() -> None:
    def first_only(block: LayerBlock, options: Mapping[str, JsonValue]) -> LayerBlock:
        assert options == {"keep": 1}
        return block.drop_pieces(block.included_pieces[1:], "first only")

    step: JsonValue = {"registered": {"name": "first", "layer": "npc", "with": {"keep": 1}}}
    blueprint = replace_ladder([step], 130)
    found = replace(TALE, blueprint=blueprint, registered={"first": first_only}).assemble_prompt()
    npc = [part for part in found.manifest.parts if part.layer == "npc" and part.is_included]
    assert len(npc) == 1
    assert [(step.step, step.on) for step in found.manifest.steps] == [("registered", "npc")]


def test_text_without_sentence_ends_is_truncated_to_its_limit() -> None:
    for text in ("x" * 100_000, "x " * 50_000, "\u202e" + "ž" * 99_999, "." * 100_000):
        found = replace(TALE, text=text, inputs={**INPUTS, "token_budget": 200}).assemble_prompt()
        part = next(part for part in found.manifest.parts if part.layer == "input")
        assert part.cut
        assert 0 < part.cut.to <= 200
        assert text[: part.cut.to] in found.request.messages[0].content


def test_every_golden_file_belongs_to_a_test_case() -> None:
    together = [f"all within {tokens}" for tokens in TOGETHER]
    names = {f"{name.replace(' ', '-')}.txt" for name in (*STEPS, *together)}
    assert {file.name for file in GOLDEN.iterdir()} == names


def compare_with_golden(name: str, found: AssembledPrompt) -> None:
    file = GOLDEN / f"{name.replace(' ', '-')}.txt"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.write_text(format_prompt(found))
        pytest.fail(f"{file.name} is new: read it, and commit it")
    assert format_prompt(found) == file.read_text()


def format_prompt(found: AssembledPrompt) -> str:
    manifest = found.manifest
    steps = [
        f"{step.section or 'whole'}: {step.step} {step.on} {step.before} -> {step.after}"
        for step in manifest.steps
    ]
    lines = [f"{manifest.tokens} of {manifest.budget} tokens", *steps]
    listing = "\n".join([*lines, *map(_format_part, manifest.parts)])
    return f"{draw_prompt(found.request)}════\n{listing}\n"


def _format_part(part: PromptPart) -> str:
    segment = f" {part.source.segment}" if isinstance(part.source, SegmentSource) else ""
    cut = f" {part.cut.of} -> {part.cut.to}" if part.cut else ""
    rule = f" ({part.rule})" if part.rule else ""
    return f"{part.layer}{segment}: {part.tokens} {part.treatment}{rule}{cut}"
