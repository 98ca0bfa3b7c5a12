"""The segment library that ships with the game master, imported and played over HTTP."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from tests.segment_budgets.game_service import GameService, build_npc_inputs, parse_blocks
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS
from turnlog.services.cli.segments.segment_actions import (
    build_import_body,
    read_segment_files,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIBRARY = SHIPPED_BLUEPRINTS / "game-master/segments/lighthouse.yaml"

SCENE: dict[str, JsonValue] = {
    "entry_point": "ep.lighthouse",
    "world": "world.shoals",
    "ruleset": "ruleset.plain",
}

PEOPLE = ("npc.mara", "npc.harl", "npc.pim")

LONGEST_TIER = 2


async def test_p5_shipped_library_fits_the_default_budgets_with_all_npcs_in_full(
    coast: GameService,
) -> None:
    """It is 1,600 of 8,000 tokens, and its three people are fewer than 600."""
    read = read_segment_files([LIBRARY])
    assert read.faults == []
    for segment in range(1, 3):
        await coast.edit_segment(segment, active=False)
    answer = await coast.http.post("/v1/segments/import", json=build_import_body(read))
    assert answer.status_code in {200, 201}, answer.text
    session = await coast.open_session(**SCENE)
    everybody = build_npc_inputs(*((npc, LONGEST_TIER) for npc in PEOPLE))
    found = await coast.play_turn(session, "I look around.", npcs=everybody)
    assert "truncated" not in found["meta"]
    assert found["meta"]["tokensEstimated"] < 2_000
    written = {segment.content for _, segment in read.segments if segment.type != "npc_cue"}
    blocks = parse_blocks(coast.sent)
    assert {text for text in written if text in coast.sent} == written
    assert list(blocks) == ["CORE", "RULESET", "WORLD", "ENTRY", "ENTRY_START", "NPC", "INPUT"]
    cued = await coast.play_turn(session, "I wait.", npcs=everybody, npc_token_budget=20)
    assert cued["meta"]["truncated"]["npcCued"] == ["npc.mara"]
    assert "Mara stands before the stairs" in parse_blocks(coast.sent)["NPC"]
