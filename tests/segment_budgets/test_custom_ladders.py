"""P11 over HTTP: a truncation policy of one's own is an edit of the shipped ladder, and no code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from tests.segment_budgets.game_service import GUARD, GameService, build_npc_inputs, parse_blocks
from tests.support.processes.process_host import run_turnlog

pytestmark = pytest.mark.asyncio(loop_scope="module")

LADDER = "    ladder:                                  # then the whole; stops as soon as it fits\n"

TURN: dict[str, JsonValue] = {
    "game_state": "It is night. The bell has rung twice. Nobody came to the gate.",
    "npcs": build_npc_inputs((GUARD, 2)),
    "first_turn": False,
}

TEXT = "I knock, and then I wait for a while. " * 30


async def create_own_blueprint(coast: GameService, name: str, *steps: str) -> Path:
    """Copy the shipped blueprint as its users do, put steps before all others, return the file."""
    place = ("--in", str(coast.blueprints))
    code, _, errors = await run_turnlog("blueprint", "new", name, "--from", "game-master", *place)
    assert code == 0, errors
    file = coast.blueprints / name / "blueprint.yaml"
    written = file.read_text()
    assert written.count(LADDER) == 1
    own = "".join(f"      - {step}\n" for step in steps)
    file.write_text(written.replace(LADDER, LADDER + own))
    return file


async def play_within(
    coast: GameService, session: str, budget: int | None = None
) -> dict[str, Any]:
    limit = {} if budget is None else {"token_budget": budget}
    return await coast.play_turn(session, TEXT, **TURN, **limit)


async def test_p11_step_that_an_author_puts_first_is_applied_first(coast: GameService) -> None:
    await create_own_blueprint(coast, "placeless", "drop: {layer: world}")
    shipped = await coast.open_session()
    own = await coast.open_session("placeless")
    full = await play_within(coast, shipped)
    assert (await play_within(coast, own))["prompt"] == full["prompt"]
    budget = full["meta"]["tokensEstimated"] - 1
    trimmed = await play_within(coast, shipped, budget)
    assert [*trimmed["meta"]["truncated"]] == ["inputTrimmed"]
    assert parse_blocks(trimmed["prompt"])["WORLD"] == parse_blocks(full["prompt"])["WORLD"]
    dropped = await play_within(coast, own, budget)
    assert dropped["meta"]["truncated"] == {"droppedScopes": ["world"]}
    world = parse_blocks(full["prompt"])["WORLD"]
    block = f"=== WORLD_BEGIN ===\n{world}\n=== WORLD_END ===\n\n"
    assert coast.sent == dropped["prompt"] == full["prompt"].replace(block, "")
    manifest = (await coast.load_context_event(own, "2.1")).manifest
    assert [(step.step, step.on) for step in manifest.steps] == [("drop", "world")]


async def test_p11_author_can_set_lengths_and_cues_of_a_ladder(coast: GameService) -> None:
    step = 'compress: {layer: game_state, chars: 20, cue: {text: "[It is late.]"}}'
    await create_own_blueprint(coast, "hurried", step)
    session = await coast.open_session("hurried")
    full = await play_within(coast, session)
    cut = await play_within(coast, session, full["meta"]["tokensEstimated"] - 1)
    assert cut["meta"]["truncated"] == {"gameStateCompressed": True}
    state = str(TURN["game_state"])
    expected = full["prompt"].replace(state, "It is night.\n[It is late.]")
    assert coast.sent == cut["prompt"] == expected


async def test_p11_invalid_ladder_is_refused_with_its_line(coast: GameService) -> None:
    file = await create_own_blueprint(coast, "rootless", "drop: {layer: core}")
    line = file.read_text()[: file.read_text().index("drop: {layer: core}")].count("\n") + 1
    form: dict[str, JsonValue] = {"blueprint": "rootless", "attributes": {}}
    refused = await coast.http.post("/v1/sessions", json=form)
    assert refused.status_code == 422
    (fault,) = refused.json()["faults"]
    assert fault["field"] == "budget.prompt.ladder.0.drop.layer"
    assert f"blueprint.yaml:{line}: " in fault["detail"]
