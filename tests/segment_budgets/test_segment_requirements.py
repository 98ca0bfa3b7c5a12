"""The game master requirements P1 to P12 over HTTP; each test is named after its requirement.

The tests of the fourth, on delimiters, are in `test_delimiters`.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.segment_budgets.game_service import (
    COAST_SEGMENTS,
    CUE,
    ENTRY,
    GUARD,
    GameService,
    build_npc_inputs,
    build_row,
    parse_blocks,
)
from turnlog.events.model.manifest import SegmentSource

pytestmark = pytest.mark.asyncio(loop_scope="module")

STATE = {"game_state": "It is night.", "player": "A thief.", "rng": "seed 7"}

LEFT_OUT = "[More is left out.]"

MOST_ROUNDS = 10
"""How often three sessions are opened until they have got both variants between them."""

ORDER = [
    "core", "ruleset", "world", "entry", "entry_start", "npc", "game_state", "player", "rng",
    "input",
]  # fmt: skip


async def test_p1_ten_layers_are_in_order_and_an_absent_one_leaves_no_block(
    coast: GameService,
) -> None:
    session = await coast.open_session()
    found = await coast.play_turn(session, "I knock.", **STATE, npcs=build_npc_inputs((GUARD, 0)))
    assert (
        [name.lower() for name in parse_blocks(found["prompt"])] == found["meta"]["order"] == ORDER
    )
    bare = await coast.play_turn(session, "I knock.", player="A thief.")
    left = ["core", "ruleset", "world", "entry", "player", "input"]
    assert [name.lower() for name in parse_blocks(bare["prompt"])] == bare["meta"]["order"] == left


async def test_p2_segments_are_edited_by_events_and_only_active_ones_are_used(
    coast: GameService,
) -> None:
    added = await coast.import_segments(build_row("world", "The sea is red.", "world.red"))
    (segment,) = added["added"]
    session = await coast.open_session(world="world.red")
    assert (
        parse_blocks((await coast.play_turn(session, "Hm"))["prompt"])["WORLD"] == "The sea is red."
    )
    await coast.edit_segment(segment, content="The sea is green.")
    assert (
        parse_blocks((await coast.play_turn(session, "Hm"))["prompt"])["WORLD"]
        == "The sea is green."
    )
    await coast.edit_segment(segment, active=False)
    assert "WORLD" not in parse_blocks((await coast.play_turn(session, "Hm"))["prompt"])


async def test_prompt_sent_before_a_segment_edit_reads_back_unchanged(coast: GameService) -> None:
    added = await coast.import_segments(build_row("world", "The sea is calm.", "world.calm"))
    session = await coast.open_session(world="world.calm")
    before = await coast.play_turn(session, "Hm")
    sent = coast.sent
    await coast.edit_segment(added["added"][0], content="The sea is wild.")
    await coast.play_turn(session, "Hm")
    assert await coast.fetch_assembly(session, "1.1") == before
    assert before["prompt"] == sent


async def test_p3_turn_supplies_its_inputs_and_session_its_attributes(
    coast: GameService,
) -> None:
    session = await coast.open_session(game="game-1")
    found = parse_blocks(
        (await coast.play_turn(session, "I knock.", **STATE, locale="en"))["prompt"]
    )
    assert [found[name] for name in ("GAME_STATE", "PLAYER", "RNG", "INPUT")] == [
        *STATE.values(),
        "I knock.",
    ]
    assert "game-1" not in "".join(found.values())
    refused = await coast.http.post("/v1/sessions", json={"blueprint": "game-master"})
    assert refused.json()["field"] == "attributes.entry_point"


async def test_p3_session_and_turns_accept_the_field_names_of_the_source_system(
    coast: GameService,
) -> None:
    opened = {
        "entryPointId": ENTRY["entry_point"],
        "worldId": ENTRY["world"],
        "rulesetId": ENTRY["ruleset"],
        "gameId": "game-1",
    }
    form = {"blueprint": "game-master", "attributes": opened}
    answer = await coast.http.post("/v1/sessions", json=form)
    assert answer.status_code == 201, answer.text
    found = await coast.play_turn(
        answer.json()["session"], "I knock.", gameStateText="It is night.", playerText="A thief.",
        rngText="seed 7", npcs=[{"npcId": GUARD, "tier": 0}], isFirstTurn=False, tokenBudget=900,
        npcTokenBudget=90, inputTrimChars=800, gameStateCompressChars=400,
    )  # fmt: skip
    own = await coast.open_session(game="game-1")
    same = await coast.play_turn(
        own, "I knock.", **STATE, npcs=build_npc_inputs((GUARD, 0)), first_turn=False
    )
    assert found == same


async def test_p5_four_characters_of_the_whole_prompt_count_as_one_token(
    coast: GameService,
) -> None:
    session = await coast.open_session()
    free = await coast.play_turn(session, "Hm", **STATE)
    tokens = -(-len(free["prompt"]) // 4)
    assert free["meta"]["tokensEstimated"] == tokens
    context = await coast.load_context_event(session, "1.1")
    assert context.manifest.budget == 8000
    just = await coast.play_turn(session, "Hm", **STATE, first_turn=True, token_budget=tokens)
    assert just["prompt"] == free["prompt"]


async def test_p5_turn_sets_the_lengths_to_which_its_input_and_state_are_shortened(
    coast: GameService,
) -> None:
    session = await coast.open_session()
    text, state = "I go on and on. " * 60, "The night is long. " * 60
    full = await coast.play_turn(session, text, game_state=state, first_turn=False)
    budget = full["meta"]["tokensEstimated"] - 1
    for chars, left in ((None, 799), (500, 495), (100, 95)):
        inputs = {} if chars is None else {"input_trim_chars": chars}
        cut = await coast.play_turn(
            session, text, game_state=state, first_turn=False, token_budget=budget, **inputs
        )
        assert cut["meta"]["truncated"] == {
            "inputTrimmed": {"fromChars": len(text), "toChars": left}
        }
    for chars, sentences in ((None, 21), (50, 2), (20, 1)):
        inputs = {} if chars is None else {"game_state_compress_chars": chars}
        cut = await coast.play_turn(
            session, "Hm", game_state=state, first_turn=False, token_budget=250, **inputs
        )
        assert cut["meta"]["truncated"] == {"gameStateCompressed": True}
        kept = ("The night is long. " * sentences).strip()
        assert parse_blocks(cut["prompt"])["GAME_STATE"] == f"{kept}\n{LEFT_OUT}".strip()


async def test_p5_default_budgets_are_600_tokens_for_npcs_and_8000_for_the_prompt(
    coast: GameService,
) -> None:
    await coast.import_segments(
        build_row("npc", "Much is known. " * 100, "npc.elder", tier=0),
        build_row("npc", "More is said. " * 40, "npc.elder", tier=1),
        build_row("npc", "Most is dreamt. " * 40, "npc.elder", tier=2),
    )
    session = await coast.open_session()
    one = await coast.play_turn(session, "Hm", npcs=build_npc_inputs(("npc.elder", 1)))
    assert "truncated" not in one["meta"]
    two = await coast.play_turn(session, "Hm", npcs=build_npc_inputs(("npc.elder", 2)))
    assert two["meta"]["truncated"] == {
        "npcDroppedTiers": [{"npcId": "npc.elder", "fromTier": 2, "toTier": 1}]
    }
    sizes = [
        -(-len(f"NPC: npc.elder\n{'Much is known. ' * 100}\n{'More is said. ' * 40}{more}") // 4)
        for more in ("", "\n" + "Most is dreamt. " * 40)
    ]
    assert sizes[0] <= 600 < sizes[1]
    for sentences, cut in ((1_900, False), (2_100, True)):
        text = "I go on and on. " * sentences
        found = await coast.play_turn(session, text)
        assert found["meta"]["tokensEstimated"] <= 8_000
        assert ("inputTrimmed" in found["meta"].get("truncated", {})) == cut


async def test_p6_short_state_is_compressed_before_any_npc_or_world_is_dropped(
    coast: GameService,
) -> None:
    session = await coast.open_session()
    state = "The night is long. The bell has rung twice. Nobody came to the gate."
    inputs: dict[str, Any] = {
        "game_state": state,
        "npcs": build_npc_inputs((GUARD, 2)),
        "first_turn": False,
    }
    free = (await coast.play_turn(session, "Hm", **inputs))["meta"]["tokensEstimated"]
    kept: list[str] = []
    for less in (1, 6, 12):
        cut = await coast.play_turn(session, "Hm", **inputs, token_budget=free - less)
        assert cut["meta"]["truncated"] == {"gameStateCompressed": True}
        kept.append(parse_blocks(cut["prompt"])["GAME_STATE"])
    assert kept == [
        f"The night is long. The bell has rung twice.\n{LEFT_OUT}",
        f"The night is long.\n{LEFT_OUT}",
        LEFT_OUT,
    ]


async def test_p6_npc_section_has_its_own_ladder(coast: GameService) -> None:
    session = await coast.open_session()
    both = build_npc_inputs((GUARD, 2), ("npc.dog", 1))
    results: list[Any] = []
    for limit in (600, 29, 20, 9, 7, 2):
        found = await coast.play_turn(session, "Hm", npcs=both, npc_token_budget=limit)
        results.append((parse_blocks(found["prompt"]).get("NPC"), found["meta"].get("truncated")))
    guard, dog = "NPC: npc.guard\nThe guard is bored.", "NPC: npc.dog\nThe dog barks."
    two, one = (
        {"npcId": GUARD, "fromTier": 2, "toTier": 1},
        {"npcId": GUARD, "fromTier": 2, "toTier": 0},
    )
    lower = [one, {"npcId": "npc.dog", "fromTier": 1, "toTier": 0}]
    assert results == [
        (f"{guard}\nHe takes bribes.\nHe serves the count.\n{dog}\nThe dog has a key.", None),
        (f"{guard}\nHe takes bribes.\n{dog}\nThe dog has a key.", {"npcDroppedTiers": [two]}),
        (f"{guard}\n{dog}", {"npcDroppedTiers": lower}),
        (guard, {"npcDropped": ["npc.dog"], "npcDroppedTiers": lower}),
        (
            f"NPC: npc.guard\n{CUE}",
            {"npcDropped": ["npc.dog"], "npcCued": [GUARD], "npcDroppedTiers": lower},
        ),
        (
            None,
            {
                "droppedScopes": ["npc"],
                "npcDropped": [GUARD, "npc.dog"],
                "npcDroppedTiers": lower,
            },
        ),
    ]


async def test_p9_dropped_or_cued_npc_with_one_tier_is_reported(
    coast: GameService,
) -> None:
    await coast.import_segments(
        build_row("npc", "The judge reads. " * 9, "npc.judge", priority="high"),
        build_row("npc", "He frowns.", "npc.judge", type="npc_cue"),
        build_row("npc", "The clerk writes. " * 9, "npc.clerk", priority="low"),
    )
    session = await coast.open_session()
    both = build_npc_inputs(("npc.judge", 0), ("npc.clerk", 0))
    alone = await coast.play_turn(session, "Hm", npcs=both, npc_token_budget=50)
    assert alone["meta"]["truncated"] == {"npcDropped": ["npc.clerk"]}
    cued = await coast.play_turn(session, "Hm", npcs=both, npc_token_budget=10)
    assert cued["meta"]["truncated"] == {"npcDropped": ["npc.clerk"], "npcCued": ["npc.judge"]}
    assert parse_blocks(cued["prompt"])["NPC"] == "NPC: npc.judge\nHe frowns."


@pytest.mark.slow("whole sessions run on a service of their own")
async def test_p6_prompt_ladder_trims_the_input_first_and_never_drops_core_or_ruleset(
    coast: GameService,
) -> None:
    session = await coast.open_session()
    text, state = "I go on and on. " * 60, "The night is long. " * 40
    free = await coast.play_turn(session, text, game_state=state, npcs=build_npc_inputs((GUARD, 2)))
    full = free["meta"]["tokensEstimated"]
    seen: list[list[str]] = []
    for budget in range(full, 80, -8):
        answer = await coast.request_turn(
            session, text, game_state=state, npcs=build_npc_inputs((GUARD, 2)), token_budget=budget,
            first_turn=True,
        )  # fmt: skip
        settled = answer.json()
        if settled["status"] == "failed":
            assert settled["reason"] == "over-budget"
            break
        found = await coast.fetch_assembly(session, f"{settled['turn']}.1")
        assert found["meta"]["tokensEstimated"] <= budget
        assert {"core", "ruleset", "game_state", "input"} <= {*found["meta"]["order"]}
        seen.append(_list_trim_steps(found["meta"].get("truncated", {})))
    taken = [what for before, what in zip([[], *seen], seen, strict=False) if what != before]
    assert taken == [
        ["inputTrimmed"],
        ["inputTrimmed", "gameStateCompressed"],
        ["inputTrimmed", "gameStateCompressed", "npcDroppedTiers"],
        ["inputTrimmed", "gameStateCompressed", "npcDroppedTiers", "npc"],
        ["inputTrimmed", "gameStateCompressed", "npcDroppedTiers", "npc", "world"],
        ["inputTrimmed", "gameStateCompressed", "npcDroppedTiers", "npc", "world", "entry"],
        [
            "inputTrimmed", "gameStateCompressed", "npcDroppedTiers", "npc", "world", "entry",
            "entry_start",
        ],
    ]  # fmt: skip
    events = [event.event for event in await coast.service.list_events(session)]
    assert "(always kept)" in str(events[-1])


def _list_trim_steps(truncated: dict[str, Any]) -> list[str]:
    """List the trim steps that were taken, in ladder order."""
    ladder = ["inputTrimmed", "gameStateCompressed", "npcDroppedTiers"]
    dropped = truncated.get("droppedScopes", [])
    order = ["npc", "world", "entry", "entry_start"]
    return [*(k for k in ladder if k in truncated), *(each for each in order if each in dropped)]


async def test_p7_tier_applies_to_one_npc_in_one_turn(coast: GameService) -> None:
    session = await coast.open_session()
    blocks: list[str] = []
    for mine, dogs in ((0, 1), (2, 0)):
        npcs = build_npc_inputs((GUARD, mine), ("npc.dog", dogs))
        blocks.append(
            parse_blocks((await coast.play_turn(session, "Hm", npcs=npcs))["prompt"])["NPC"]
        )
    assert "He takes bribes." not in blocks[0]
    assert "The dog has a key." in blocks[0]
    assert "He serves the count." in blocks[1]
    assert "The dog has a key." not in blocks[1]


async def test_p8_entry_start_is_only_in_the_first_turn_unless_the_caller_overrides_it(
    coast: GameService,
) -> None:
    session = await coast.open_session()
    flags: list[dict[str, Any]] = [{"first_turn": False}, {}, {"first_turn": True}]
    included = [
        "ENTRY_START" in parse_blocks((await coast.play_turn(session, "Hm", **flag))["prompt"])
        for flag in flags
    ]
    assert included == [False, False, True]
    fresh = await coast.open_session()
    refused = await coast.play_failing_turn(fresh, "Hm", token_budget=1)
    assert refused["reason"] == "over-budget"
    assert "ENTRY_START" in parse_blocks((await coast.play_turn(fresh, "Hm"))["prompt"])


async def test_p9_report_lists_layers_segments_and_tokens(coast: GameService) -> None:
    session = await coast.open_session()
    found = await coast.play_turn(session, "Hm", npcs=build_npc_inputs((GUARD, 0)))
    page = await coast.service.get_json("/v1/segments", scope="npc", ref=GUARD, limit=500)
    (bored,) = [
        each["id"] for each in page["segments"] if each["content"] == COAST_SEGMENTS[6]["content"]
    ]
    meta = found["meta"]
    assert meta["segmentIdsByScope"]["npc"] == [bored]
    assert set(meta) == {"order", "segmentIdsByScope", "tokensEstimated"}
    manifest = (await coast.load_context_event(session, "1.1")).manifest
    included = [part for part in manifest.parts if part.is_included]
    segment_ids = {
        part.layer: [
            each.source.segment
            for each in included
            if each.layer == part.layer and isinstance(each.source, SegmentSource)
        ]
        for part in included
    }
    assert {name: ids for name, ids in segment_ids.items() if ids} == meta["segmentIdsByScope"]


async def test_p10_locale_falls_back_and_the_variant_of_a_session_is_recorded(
    coast: GameService,
) -> None:
    added = await coast.import_segments(
        build_row("world", "Tas pats rūkas.", "world.two", locale="lt"),
        build_row("world", "The same fog.", "world.two", locale="en"),
        build_row("entry", "One gate.", "ep.two", variant="a"),
    )
    await coast.edit_segment(added["added"][2], content="Two gates.", variant="b")
    entries: set[tuple[str, str]] = set()
    fog, rukas = "The same fog.", "Tas pats rūkas."
    for locale, world in (("lt", rukas), ("lt-LT", rukas), ("fr", fog)) * MOST_ROUNDS:
        session = await coast.open_session(world="world.two", entry_point="ep.two", locale=locale)
        of_session: set[tuple[str, str]] = set()
        for call in ("1.1", "2.1"):
            found = parse_blocks((await coast.play_turn(session, "Hm"))["prompt"])
            assert found["WORLD"] == world
            parts = (await coast.load_context_event(session, call)).manifest.parts
            entry = next(part.source for part in parts if part.layer == "entry")
            assert isinstance(entry, SegmentSource)
            of_session.add((entry.variant, found["ENTRY"]))
        assert len(of_session) == 1, "a session keeps its variant"
        entries |= of_session
        if len(entries) == 2 and locale == "fr":
            break
    assert entries == {("a", "One gate."), ("b", "Two gates.")}


async def test_p12_inputs_of_a_turn_are_checked_before_anything_is_recorded(
    coast: GameService,
) -> None:
    session = await coast.open_session()
    before = len(await coast.service.list_events(session))
    faulty: list[tuple[dict[str, Any], str]] = [
        ({"npcs": "npc.guard"}, "inputs.npcs"),
        ({"npcs": ["npc.guard"]}, "inputs.npcs.0"),
        ({"npcs": [{"npc": GUARD}]}, "inputs.npcs.0.tier"),
        ({"npcs": [{"npc": GUARD, "tier": -1}]}, "inputs.npcs.0.tier"),
        ({"npcs": [{"npc": GUARD, "tier": 1}, {"npc": "a b", "tier": 1}]}, "inputs.npcs.1.npc"),
        ({"npcs": [{"npc": GUARD, "tier": 1, "mood": "sad"}]}, "inputs.npcs.0.mood"),
        ({"token_budget": 0}, "inputs.token_budget"),
        ({"token_budget": -1}, "inputs.token_budget"),
        ({"npc_token_budget": "600"}, "inputs.npc_token_budget"),
        ({"first_turn": "yes"}, "inputs.first_turn"),
        ({"gamestate": "x"}, "inputs.gamestate"),
    ]
    for inputs, field in faulty:
        answer = await coast.request_turn(session, "Hm", **inputs)
        assert answer.status_code == 422, answer.text
        assert answer.json()["field"] == field
        assert answer.json()["fix"]
    assert len(await coast.service.list_events(session)) == before


async def test_p12_turn_without_a_required_segment_fails_and_other_sessions_continue(
    coast: GameService,
) -> None:
    lawless = await coast.open_session(ruleset="ruleset.none")
    refused = await coast.play_failing_turn(lawless, "Hm")
    assert refused["reason"] == "segments-missing"
    session = await coast.open_session(world="world.none")
    assert "WORLD" not in parse_blocks((await coast.play_turn(session, "Hm"))["prompt"])


async def test_session_without_a_required_attribute_is_refused(coast: GameService) -> None:
    for missing in ENTRY:
        attributes = {name: value for name, value in ENTRY.items() if name != missing}
        form = {"blueprint": "game-master", "attributes": attributes}
        answer = await coast.http.post("/v1/sessions", json=form)
        assert (answer.status_code, answer.json()["field"]) == (422, f"attributes.{missing}")
