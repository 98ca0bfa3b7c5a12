"""Isolated phases: no prompt contains text of a phase that its own phase may not see.

Every text of users, model and tools bears the mark of its phase, and a carried text bears the mark
of its target phase. So the marks of a prompt show where its text came from. Hidden text also has no
other effect: with other text there, the prompts stay the same.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agent_programs.phases.isolated_phases import (
    ACTION_LISTS,
    CAN_SEE,
    CARRIED,
    MARK,
    ORDER,
    PhaseWalker,
    open_phase_walker,
)
from turnlog.events.errors import Refused
from turnlog.events.model.memory_events import HistorySummarised
from turnlog.events.model.session_events import PhaseEntered
from turnlog.events.model.tool_events import StepPlanned

Walk = list[tuple[Any, ...]]

WITHOUT_UNDOING = ACTION_LISTS.map(lambda walk: [action for action in walk if action[0] != "undo"])


async def run_actions(walk: Walk, tokens: int = 100_000) -> PhaseWalker:
    walking = await open_phase_walker(tokens)
    for action in walk:
        await walking.run_action(action)
    return walking


@settings(max_examples=12)
@given(ACTION_LISTS, st.sampled_from([700, 100_000]))
def test_prompt_contains_no_text_of_a_hidden_phase(walk: Walk, tokens: int) -> None:
    for phase, prompt in asyncio.run(run_actions(walk, tokens)).list_prompts():
        assert set(MARK.findall(prompt)) <= set(CAN_SEE[phase])
        assert set(CARRIED.findall(prompt)) <= set(CAN_SEE[phase])


@pytest.mark.slow("turns of several calls run over HTTP")
@settings(max_examples=8)
@given(WITHOUT_UNDOING, st.sampled_from(ORDER))
def test_turns_of_a_hidden_phase_do_not_change_prompts(walk: Walk, phase: str) -> None:
    plain_run = asyncio.run(run_actions(walk))
    extended_run = asyncio.run(run_actions(_extend_hidden_turns(walk, phase)))
    own_prompts, other_prompts = (
        [prompt for of, prompt in each.list_prompts() if of == phase]
        for each in (plain_run, extended_run)
    )
    assert own_prompts == other_prompts


def _extend_hidden_turns(walk: Walk, phase: str) -> Walk:
    """Lengthen the turns of phases that this phase may not see."""
    now, other = ORDER[0], list[tuple[Any, ...]]()
    for action in walk:
        now = action[1] if action[0] == "go" else now
        hidden = action[0] == "say" and now not in CAN_SEE[phase]
        other.append(("say", action[1] + 60) if hidden else action)
    return other


async def test_visible_phases_reach_prompts_by_history_summary_prior_result_and_carried_text() -> (
    None
):
    walk: Walk = [
        *(("say", 30), ("say", 30), ("say", 30), ("say", 30)),
        *(("go", "focus", True), ("say", 1)),
        *(("go", "operate", False), ("say", 1), ("say", 1)),
    ]
    walking = await run_actions(walk)
    events = [event.event for event in walking.shop.house.list_events()]
    assert any(isinstance(event, HistorySummarised) for event in events)
    assert any(isinstance(event, StepPlanned) and event.given for event in events)
    seen = {(phase, *sorted(set(MARK.findall(prompt)))) for phase, prompt in walking.list_prompts()}
    assert ("focus", "focus", "ideate") in seen
    assert ("operate", "focus", "operate") in seen
    (first, *_) = (prompt for phase, prompt in walking.list_prompts() if phase == "focus")
    assert "sum-up said-in-ideate" in first
    carrying = {phase for phase, prompt in walking.list_prompts() if CARRIED.search(prompt)}
    assert carrying == {"focus", "operate"}


async def test_summary_records_the_phase_in_which_it_was_created() -> None:
    walk: Walk = [("say", 30), ("say", 30), ("say", 30), ("go", "focus", True), ("say", 30)]
    walking = await run_actions([*walk, ("say", 30), ("go", "ideate", False), ("say", 1)])
    events = [event.event for event in walking.shop.house.list_events()]
    made = [event for event in events if isinstance(event, HistorySummarised)]
    assert ("focus", "ideate") in [event.phases for event in made]
    assert "sum-up said-in-ideate" in walking.list_prompts()[-1][1]


async def test_phase_entry_records_shared_and_hidden_phases() -> None:
    walk: Walk = [("go", "focus", True), ("go", "operate", False), ("go", "ideate", False)]
    walking = await run_actions(walk)
    entered = walking.shop.list_events(PhaseEntered)
    transitions = [(each.phase, each.before, each.shared, each.hidden) for each in entered]
    assert transitions == [
        ("ideate", None, ("ideate",), ()),
        ("focus", "ideate", ("focus", "ideate"), ()),
        ("operate", "focus", ("focus", "operate"), ("ideate",)),
        ("ideate", "operate", ("ideate",), ("focus", "operate")),
    ]
    (carried,) = [each.carried for each in entered if each.carried]
    assert carried.text == "Summary from ideate phase: carried-to-focus 0"


async def test_carrying_text_to_an_earlier_phase_is_refused() -> None:
    walking = await run_actions([("go", "operate", False)])
    state = await walking.shop.house.load_state()
    command = walking.build_enter_command("ideate", "a word")
    with pytest.raises(Refused, match="texts are carried forward only"):
        await walking.send_command(command)
    assert (await walking.shop.house.load_state()) == state


async def test_entering_an_unknown_phase_is_refused() -> None:
    walking = await run_actions([("go", "focus", False)])
    with pytest.raises(Refused) as refused:
        await walking.send_command(walking.build_enter_command("nowhere"))
    assert refused.value.code == "unknown-phase"
