"""What-if: the prompts of a recorded session under another blueprint, budget or model.

Each result is compared with a session that was really run that way, with the same replies.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.services.what_if.two_versions import (
    CONVERSATION,
    FIRST_VERSION,
    SECOND_VERSION,
    ScriptedTurn,
    build_change,
    list_recorded_prompts,
    run_conversation,
    run_turn,
    run_what_if,
    write_blueprint_folder,
)
from tests.support.sessions.session_harness import TENANT, TESTER, SessionHarness
from turnlog.projections.audit.what_if.hypothetical_change import WhatIfChange
from turnlog.projections.audit.what_if.reassembled_calls import PromptAlteration, ReassembledCall
from turnlog.projections.prompt.budget.budget_error import BudgetExceeded
from turnlog.projections.session.commands import MoveBlueprint, SwitchProfile
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders

PERSONA = "You are a clerk, and brief."

OTHER = "You are a clerk with all the time in the world."


@pytest.fixture
def first(tmp_path: Path) -> Path:
    return write_blueprint_folder(tmp_path / "first", FIRST_VERSION, persona_md=PERSONA)


@pytest.fixture
def second(tmp_path: Path) -> Path:
    return write_blueprint_folder(tmp_path / "second", SECOND_VERSION, persona_md=OTHER)


@pytest.mark.parametrize("reverse", [False, True])
async def test_what_if_blueprint_gives_the_prompts_of_a_real_run(
    first: Path, second: Path, *, reverse: bool
) -> None:
    was, now = (second, first) if reverse else (first, second)
    house = SessionHarness()
    await run_conversation(house, was, "recorded", CONVERSATION, tone="kind")
    await run_conversation(house, now, "really", CONVERSATION, tone="kind")
    found = await run_what_if(house, "recorded", build_change(now))
    assert tuple(each.after for each in found) == list_recorded_prompts(house, "really")
    assert tuple(each.before for each in found) == list_recorded_prompts(house, "recorded")
    assert all(each.before.digest != each.after.digest for each in found if each.after)


async def test_what_if_budget_gives_the_prompts_of_a_real_run(first: Path) -> None:
    house = SessionHarness()
    await run_conversation(house, first, "recorded", CONVERSATION)
    narrow = FIRST_VERSION.replace("tokens: 200", "tokens: 60")
    await run_conversation(
        house,
        write_blueprint_folder(first.parent / "narrow", narrow, persona_md=PERSONA),
        "really",
        CONVERSATION,
    )
    found = await run_what_if(
        house, "recorded", WhatIfChange(folder=BlueprintFolders((first,)), budget=60)
    )
    assert tuple(each.after for each in found) == list_recorded_prompts(house, "really")
    cut = [one for each in found for one in each.altered]
    assert {one.how for one in cut} == {"cut"}
    assert {(one.layer, one.rule) for one in cut} == {("history", "drop_oldest_pairs")}


async def test_wider_budget_restores_the_turns_that_a_narrower_one_drops(
    first: Path,
) -> None:
    house = SessionHarness()
    narrow = FIRST_VERSION.replace("tokens: 200", "tokens: 60")
    folder = write_blueprint_folder(first.parent / "narrow", narrow, persona_md=PERSONA)
    await run_conversation(house, first, "wide", CONVERSATION)
    await run_conversation(house, folder, "narrow", CONVERSATION)
    cut = await run_what_if(
        house, "wide", WhatIfChange(folder=BlueprintFolders((first,)), budget=60)
    )
    given_back = await run_what_if(
        house, "narrow", WhatIfChange(folder=BlueprintFolders((folder,)), budget=200)
    )
    assert [_list_altered_turns(each, "cut") for each in cut] == [
        _list_altered_turns(each, "uncut") for each in given_back
    ]
    again = [one for each in given_back for one in each.altered]
    assert (
        PromptAlteration(
            layer="history", how="uncut", rule="drop_oldest_pairs", first=1, last=1, segment=None
        )
        in again
    )


def _list_altered_turns(reassembled: ReassembledCall, how: str) -> list[int]:
    assert {each.how for each in reassembled.altered} <= {how}
    runs = [range(each.first or 0, (each.last or 0) + 1) for each in reassembled.altered]
    return sorted(turn for run in runs for turn in run)


async def test_what_if_model_uses_the_prompt_files_of_its_provider(
    tmp_path: Path,
) -> None:
    folder = write_blueprint_folder(
        tmp_path / "both", FIRST_VERSION, puppet__persona_md=PERSONA, other__persona_md=OTHER
    )
    house = SessionHarness()
    await run_conversation(house, folder, "recorded", CONVERSATION[:3])
    found = await run_what_if(
        house, "recorded", WhatIfChange(folder=BlueprintFolders((folder,)), model="other/two")
    )
    assert [each.after.model for each in found if each.after] == ["other/two"] * 3
    assert found[0].altered == (
        PromptAlteration(
            layer="persona", how="changed", rule=None, first=None, last=None, segment=None
        ),
    )


async def test_same_blueprint_changes_nothing(first: Path) -> None:
    house = SessionHarness()
    await run_conversation(house, first, "recorded", CONVERSATION)
    found = await run_what_if(house, "recorded", build_change(first))
    assert [each.after for each in found] == [each.before for each in found]
    assert not any(each.altered for each in found)


async def test_each_call_of_a_moved_session_uses_the_files_of_its_own_version(
    first: Path,
) -> None:
    house = SessionHarness()
    await run_conversation(house, first, "s", CONVERSATION[:1])
    later = FIRST_VERSION.replace("version: 1", "version: 2").replace("persona.md", "other.md")
    library = BlueprintFolders((write_blueprint_folder(first, later, other_md=OTHER),))
    clerk = library.load_blueprint("clerk")
    attributes = (await house.load_state("s")).attributes
    ref = await house.blueprints.store_blueprint(TENANT, clerk)
    await house.sessions.handle(
        TENANT,
        "s",
        MoveBlueprint(blueprint=ref, reach=0, attributes=attributes, profiles=clerk.profiles),
        TESTER,
    )
    house.library = library
    await run_turn(house, clerk, "s", CONVERSATION[1])
    found = await run_what_if(house, "s", WhatIfChange(folder=library, model="anthropic/claude-x"))
    assert [each.after is not None for each in found] == [True, True]
    assert [each.altered for each in found] == [(), ()]


async def test_call_over_budget_reports_required_layers_and_the_excess(first: Path) -> None:
    house = SessionHarness()
    await run_conversation(house, first, "recorded", CONVERSATION[:2])
    found = await run_what_if(
        house, "recorded", WhatIfChange(folder=BlueprintFolders((first,)), budget=9)
    )
    refused = found[0].refused
    assert isinstance(refused, BudgetExceeded)
    assert (refused.limit, refused.tokens > 9) == (9, True)
    assert [each.layer for each in refused.required_layers] == ["persona", "input"]
    assert [each.after for each in found] == [None, None]


MISFITS = {
    "unknown-value": (
        FIRST_VERSION.replace("  tone: {type: text, default: plain}\n", ""),
        "attributes",
    ),
    "missing-value": (
        FIRST_VERSION.replace("place: {type: text}", "place: {type: text, required: true}"),
        "inputs.place",
    ),
    "blueprint-does-not-fit": (FIRST_VERSION.replace("  chat: {def", "  talk: {def"), "profile"),
    "prompt-missing": (
        FIRST_VERSION.replace('"{provider}", "."', '"{provider}/none"'),
        "layers.persona.file",
    ),
    "not-recorded": (
        FIRST_VERSION.replace(
            'language: {text: "Always answer in {language}."}',
            "language: {segments: {scope: language}}",
        ),
        "language",
    ),
}


@pytest.mark.parametrize("code", MISFITS)
async def test_what_if_change_that_does_not_fit_the_record_is_reported_per_call(
    first: Path, tmp_path: Path, code: str
) -> None:
    text, field = MISFITS[code]
    house = SessionHarness()
    await run_conversation(house, first, "recorded", CONVERSATION[:2], tone="kind")
    changed = write_blueprint_folder(tmp_path / "changed", text, persona_md=PERSONA)
    library = BlueprintFolders((changed,))
    found = await run_what_if(
        house, "recorded", WhatIfChange(folder=library, blueprint=library.load_blueprint("clerk"))
    )
    refusals = [each.refused for each in found if each.refused]
    assert refusals, found
    assert {(each.code, str(each.field).startswith(field)) for each in refusals} == {(code, True)}


@pytest.mark.parametrize("allowed", [True, False])
async def test_what_if_blueprint_that_forbids_the_current_model_is_refused(
    first: Path, tmp_path: Path, *, allowed: bool
) -> None:
    house = SessionHarness()
    switch = SwitchProfile("chat", {"chat"}, "openai/egret", {"openai/egret"})
    await run_conversation(house, first, "recorded", ())
    await house.sessions.handle(TENANT, "recorded", switch, TESTER)
    clerk = BlueprintFolders((first,)).load_blueprint("clerk")
    await run_turn(house, clerk, "recorded", CONVERSATION[0])
    text = f"{FIRST_VERSION}models: {{allow: [openai/egret]}}\n" if allowed else FIRST_VERSION
    library = BlueprintFolders(
        (write_blueprint_folder(tmp_path / "new", text, persona_md=PERSONA),)
    )
    change = WhatIfChange(folder=library, blueprint=library.load_blueprint("clerk"))
    (found,) = await run_what_if(house, "recorded", change)
    refused = found.refused
    assert (None if refused is None else (refused.code, refused.field)) == (
        None if allowed else ("blueprint-does-not-fit", "model")
    )
    change = WhatIfChange(
        folder=library, blueprint=library.load_blueprint("clerk"), model="anthropic/claude-x"
    )
    (found,) = await run_what_if(house, "recorded", change)
    assert found.refused is None


async def test_later_redaction_does_not_change_what_if_results_of_earlier_calls(
    first: Path, second: Path
) -> None:
    house = SessionHarness()
    turn = ScriptedTurn("Where?", "Left.")
    await run_conversation(house, first, "recorded", (turn, turn))
    early = await run_what_if(house, "recorded", build_change(second))
    house.model.scripts.clear()
    again = SessionHarness()
    withheld = ScriptedTurn("Where?", "Left.", commands_after=CONVERSATION[3].commands_after)
    await run_conversation(again, first, "recorded", (turn, turn, turn, withheld))
    late = await run_what_if(again, "recorded", build_change(second))
    assert [each.after for each in late[:2]] == [each.after for each in early]
