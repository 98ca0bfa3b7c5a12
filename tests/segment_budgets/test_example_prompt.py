"""The first prompt of the example, byte for byte.

The sentences are those of the system that this blueprint replaces.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.segment_budgets.game_service import GameService, build_npc_inputs, build_row
from turnlog.events.content import compute_digest

pytestmark = pytest.mark.asyncio(loop_scope="module")

EXAMPLE = Path(__file__).with_name("example.txt")

PLACE = {"entry_point": "ep.whispercross", "world": "world.mystika"}

RULES = "ruleset.classic_v1"

INN = "npc.innkeeper"

MORE = "And there is more. " * 15 + "That is all."


def read_example_lines() -> list[str]:
    """Return the lines between the delimiters of the example."""
    lines = EXAMPLE.read_text().splitlines()
    return [line for line in lines if line and not line.startswith(("===", "NPC:"))]


async def test_the_first_prompt_is_the_examples_byte_for_byte(coast: GameService) -> None:
    core, rules, world, entry, start, friendly, secrets, state, player, text = read_example_lines()
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
        build_row("npc", MORE, INN, tier=2),
    )
    session = await coast.open_session(**PLACE, ruleset=RULES)
    given = {"game_state": state, "player": player}
    first = await coast.play_turn(
        session, text, **given, npcs=build_npc_inputs((INN, 1)), first_turn=True
    )
    assert coast.sent == first["prompt"] == EXAMPLE.read_text().rstrip("\n")
    assert compute_digest(first["prompt"]) == compute_digest(EXAMPLE.read_text().rstrip("\n"))
    assert first["meta"]["order"] == [
        "core", "ruleset", "world", "entry", "entry_start", "npc", "game_state", "player", "input"
    ]  # fmt: skip
    assert "truncated" not in first["meta"]

    later = await coast.play_turn(
        session, text, **given, npcs=build_npc_inputs((INN, 2)), first_turn=False
    )
    assert later["meta"]["order"] == [
        name for name in first["meta"]["order"] if name != "entry_start"
    ]
    assert f"{secrets}\n{MORE}\n=== NPC_END ===" in later["prompt"]

    long = " ".join([text] * 20)
    cut = await coast.play_turn(
        session, long, game_state=" ".join([state] * 20), player=player,
        npcs=build_npc_inputs((INN, 2)), first_turn=False, token_budget=290,
    )  # fmt: skip
    truncated = cut["meta"]["truncated"]
    assert truncated["inputTrimmed"]["fromChars"] == len(long)
    assert truncated["inputTrimmed"]["toChars"] <= 200
    assert truncated["gameStateCompressed"] is True
    assert truncated["npcDroppedTiers"] == [{"npcId": INN, "fromTier": 2, "toTier": 1}]
