"""The prompts of the example, byte for byte.

The sentences are those of the system that this blueprint replaces.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from tests.segment_budgets.game_service import (
    GameService,
    build_npc_inputs,
    build_row,
    parse_blocks,
)
from turnlog.events.content import compute_digest

pytestmark = pytest.mark.asyncio(loop_scope="module")

EXAMPLE = Path(__file__).with_name("example.txt")

CUT_EXAMPLE = Path(__file__).with_name("example_cut.txt")

PLACE = {"entry_point": "ep.whispercross", "world": "world.mystika"}

RULES = "ruleset.classic_v1"

INN = "npc.innkeeper"

ITEMS = "He has magical items."

TALK = "I talk to the innkeeper."

LONG = " ".join([*[TALK] * 7, "I ask him about the road.", *[TALK] * 12])
"""An input of 500 characters with the end of a sentence at 200."""


def read_example_lines() -> list[str]:
    """Return the lines between the delimiters of the example."""
    lines = EXAMPLE.read_text().splitlines()
    return [line for line in lines if line and not line.startswith(("===", "NPC:"))]


async def open_example_session(coast: GameService) -> str:
    """Open a session with the segments of the example, which are imported once."""
    core, rules, world, entry, start, friendly, secrets, *_ = read_example_lines()
    for segment in range(1, 3):
        await coast.edit_segment(segment, active=False)
    await coast.import_segments(
        build_row("core", core),
        build_row("ruleset", rules, RULES),
        build_row("world", world, PLACE["world"]),
        build_row("entry", entry, PLACE["entry_point"]),
        build_row("entry_start", start, PLACE["entry_point"]),
        build_row("npc", friendly, INN, tier=0, type="npc_description", priority="high"),
        build_row("npc", secrets, INN, tier=1),
        build_row("npc", ITEMS, INN, tier=2),
    )
    return await coast.open_session(**PLACE, ruleset=RULES)


async def play_example(
    coast: GameService, session: str, tier: int, *, first: bool
) -> dict[str, Any]:
    """Play a turn of the example, in which the innkeeper is known up to a tier."""
    *_, state, player, text = read_example_lines()
    npcs = build_npc_inputs((INN, tier))
    inputs: dict[str, JsonValue] = {"game_state": state, "player": player, "npcs": npcs}
    return await coast.play_turn(session, text, **inputs, first_turn=first)


async def test_p1_layers_of_the_example_are_in_its_order(coast: GameService) -> None:
    first = await play_example(coast, await open_example_session(coast), 1, first=True)
    assert first["meta"]["order"] == [
        "core", "ruleset", "world", "entry", "entry_start", "npc", "game_state", "player", "input"
    ]  # fmt: skip
    assert [name.lower() for name in parse_blocks(coast.sent)] == first["meta"]["order"]


async def test_p4_first_prompt_equals_the_example_byte_for_byte(coast: GameService) -> None:
    first = await play_example(coast, await open_example_session(coast), 1, first=True)
    assert coast.sent == first["prompt"] == EXAMPLE.read_text().rstrip("\n")
    assert compute_digest(first["prompt"]) == compute_digest(EXAMPLE.read_text().rstrip("\n"))
    assert "truncated" not in first["meta"]


async def test_p7_later_turn_of_the_example_includes_the_next_tier_of_the_innkeeper(
    coast: GameService,
) -> None:
    session = await open_example_session(coast)
    first = await play_example(coast, session, 1, first=True)
    secrets = read_example_lines()[6]
    later = await play_example(coast, session, 2, first=True)
    assert later["prompt"] == first["prompt"].replace(secrets, f"{secrets}\n{ITEMS}")
    assert coast.sent == later["prompt"]


async def test_p8_later_turn_of_the_example_has_no_entry_start(coast: GameService) -> None:
    session = await open_example_session(coast)
    first = await play_example(coast, session, 1, first=True)
    welcome = read_example_lines()[4]
    later = await play_example(coast, session, 1, first=False)
    block = f"=== ENTRY_START_BEGIN ===\n{welcome}\n=== ENTRY_START_END ===\n\n"
    assert later["prompt"] == first["prompt"].replace(block, "")
    assert coast.sent == later["prompt"]


async def test_p9_budget_example_is_shortened_as_documented(coast: GameService) -> None:
    """The result is the document's, at the budgets for which its own sentences have that result.

    A budget of 100 is no such budget: four characters a token, and the delimiters of core, ruleset,
    people, state and input with an input of 200 characters are 406 characters without any text.
    What becomes of it within 100 is the next test's.
    """
    session = await open_example_session(coast)
    lowest, highest = 193, 197
    for budget in (lowest, highest):
        cut = await play_budget_example(coast, session, token_budget=budget)
        assert cut["meta"]["truncated"] == {
            "inputTrimmed": {"fromChars": 500, "toChars": 200},
            "gameStateCompressed": True,
            "npcDroppedTiers": [{"npcId": INN, "fromTier": 2, "toTier": 1}],
        }
        assert coast.sent == cut["prompt"] == CUT_EXAMPLE.read_text().rstrip("\n")
        assert cut["meta"]["tokensEstimated"] == lowest


async def test_p6_budget_example_within_100_tokens_keeps_the_player_the_state_and_the_question(
    coast: GameService,
) -> None:
    session = await open_example_session(coast)
    cut = await play_budget_example(coast, session, token_budget=100)
    core, rules, *_, player, _ = read_example_lines()
    assert cut["meta"]["tokensEstimated"] == 100
    assert cut["meta"]["order"] == ["core", "ruleset", "game_state", "player", "input"]
    assert cut["meta"]["truncated"] == {
        "inputTrimmed": {"fromChars": 500, "toChars": 74},
        "gameStateCompressed": True,
        "droppedScopes": ["world", "entry", "npc"],
        "npcDropped": [INN],
        "npcDroppedTiers": [{"npcId": INN, "fromTier": 2, "toTier": 0}],
    }
    assert coast.sent == cut["prompt"]
    assert parse_blocks(coast.sent) == {
        "CORE": core,
        "RULESET": rules,
        "GAME_STATE": "[More is left out.]",
        "PLAYER": player,
        "INPUT": " ".join([TALK] * 3),
    }
    manifest = (await coast.load_context_event(session, "1.1")).manifest
    assert [(step.step, step.on) for step in manifest.steps] == [
        ("trim", "input"), ("compress", "game_state"), ("lower_tier", "npc"), ("drop", "npc"),
        ("drop", "world"), ("drop", "entry"), ("trim", "input"),
    ]  # fmt: skip


async def test_p6_budget_that_would_cost_the_player_or_the_state_is_refused(
    coast: GameService,
) -> None:
    session = await open_example_session(coast)
    sent = len(coast.provider.exchanges)
    refused = await coast.play_failing_turn(session, LONG, **build_budget_inputs(), token_budget=99)
    assert refused["reason"] == "over-budget"
    detail = str([event.event for event in await coast.service.list_events(session)][-1])
    assert "100 tokens do not fit 99" in detail
    assert all(f"{layer} " in detail for layer in ("game_state", "player", "input"))
    assert len(coast.provider.exchanges) == sent, "the model is not asked"


def build_budget_inputs() -> dict[str, JsonValue]:
    """Return the inputs of the later turn, under the document's own names."""
    return {
        "gameStateText": "You are in the inn common room.",
        "playerText": read_example_lines()[-2],
        "npcs": [{"npcId": INN, "tier": 2}],
        "isFirstTurn": False,
    }


async def play_budget_example(
    coast: GameService, session: str, **inputs: JsonValue
) -> dict[str, Any]:
    """Play the later turn with an input of 500 characters."""
    return await coast.play_turn(session, LONG, **build_budget_inputs(), **inputs)
