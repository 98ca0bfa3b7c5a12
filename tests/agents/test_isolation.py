"""Phases kept apart: no prompt of a phase tells of one it may not see, whatever the session did.

Everything that is said in a phase bears its mark: questions, plans, what tools are asked and give,
replies. The model repeats nothing, so that a mark in a prompt comes from the session alone. What is
carried on purpose bears a mark of its own, for the one phase it is carried to.
"""

from __future__ import annotations

import asyncio
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.agents.workshop import Workshop, agent, planning, taking
from tests.parts.house import BY, TENANT
from turnlog.events.call import ContextAssembled
from turnlog.events.errors import Refused
from turnlog.events.phase import PhaseEntered
from turnlog.projections.session.commands import EnterPhase, ExcludeTurn, RestoreTurn
from turnlog.projections.window.material import Material

ORDER = ("ideate", "focus", "operate", "complete")
CAN_SEE = {
    "ideate": ["ideate"],
    "focus": ["ideate", "focus"],
    "operate": ["focus", "operate"],
    "complete": ["operate", "complete"],
}
Walk = list[tuple[str, bool, int]]
"""Phases to go to, each with whether something is carried there, and how many turns it has."""
MARK = re.compile(r"said-in-(\w+)")
CARRIED = re.compile(r"carried-to-(\w+)")


def apart(characters: int = 100_000) -> Workshop:
    """Give a workshop whose phases are kept apart, and whose windows hold so much."""
    plain = agent().model_dump(mode="json", by_alias=True, exclude_unset=True)
    layers = {**plain["layers"], "carried": {"carry": "phase"}}
    calls = plain["calls"]
    for call in calls.values():
        call["messages"][0]["system"].append("carried")
    phases = {"order": ORDER, "can_see": CAN_SEE, "carry": {"forward": "summary"}}
    calls["plan"]["budget"] = calls["synthesise"]["budget"] = "window"
    ladder = [{"drop_oldest_pairs": {"history": "recent"}}]
    window = {"tokens": characters, "counter": {"chars_per_token": 1}, "ladder": ladder}
    return Workshop(
        kind=agent(layers=layers, calls=calls, phases=phases, budget={"window": window})
    )


async def said(shop: Workshop, phase: str, number: int) -> None:
    """Have a turn of two calls and a tool, all of it marked."""
    mark = f"said-in-{phase} {number}"
    shop.shop.gives = f"result {mark}"
    steps = planning((f"goal {mark}", []))
    look = taking(("shop_look", f'{{"what": "{mark}"}}'))
    await shop.turn(steps, look, [f"reply {mark}"], text=f"question {mark}")


async def moved(shop: Workshop, phase: str, carry: str | None = None) -> None:
    """Move to a phase."""
    graph = Material(shop.kind).phases
    assert graph is not None
    command = EnterPhase(phase, graph, carry)
    await shop.house.sessions.act(TENANT, "s", command, BY)


async def walked(walk: Walk, characters: int = 100_000) -> Workshop:
    """Go from phase to phase; in each, have turns, and carry something forward if it is wished."""
    shop = await apart(characters).opened()
    phase, number = "ideate", 0
    await said(shop, phase, number)
    for target, carries, turns in walk:
        forward = ORDER.index(target) > ORDER.index(phase)
        await moved(shop, target, f"carried-to-{target}" if carries and forward else None)
        phase = target
        for _ in range(turns):
            number += 1
            await said(shop, phase, number)
            await toggled(shop, number)
    return shop


async def toggled(shop: Workshop, number: int) -> None:
    """Take a turn out and in again, or out alone: neither brings it to another phase."""
    for command in (ExcludeTurn(number), RestoreTurn(number))[: number % 3]:
        await shop.house.sessions.act(TENANT, "s", command, BY)


def prompts(shop: Workshop) -> list[tuple[str, str]]:
    """Give the phase of each request, and everything the request said."""
    phases = [of for recorded in shop.house.events() if (of := _phase_of(recorded.event))]
    made: list[tuple[str, str]] = []
    current = ""
    requests = iter(shop.house.model.requests)
    for phase in phases:
        if phase.startswith("phase "):
            current = phase.removeprefix("phase ")
        else:
            asked = next(requests)
            made.append((current, f"{asked.messages} {asked.tools}"))
    return made


def _phase_of(event: object) -> str:
    match event:
        case PhaseEntered(phase=phase):
            return f"phase {phase}"
        case ContextAssembled():
            return "call"
        case _:
            return ""


WALKS = st.lists(
    st.tuples(st.sampled_from(ORDER), st.booleans(), st.integers(0, 2)), min_size=1, max_size=6
)


@settings(max_examples=25)
@given(WALKS)
def test_no_prompt_holds_a_mark_of_a_phase_it_may_not_see(
    walk: list[tuple[str, bool, int]],
) -> None:
    shop = asyncio.run(walked(walk))
    for phase, prompt in prompts(shop):
        assert set(MARK.findall(prompt)) <= set(CAN_SEE[phase])
        assert set(CARRIED.findall(prompt)) <= {phase}


async def test_what_may_be_seen_is_seen() -> None:
    shop = await walked([("focus", True, 1), ("operate", False, 1), ("focus", False, 1)])
    seen = {(phase, *sorted(set(MARK.findall(prompt)))) for phase, prompt in prompts(shop)}
    assert ("focus", "focus", "ideate") in seen
    assert ("operate", "focus", "operate") in seen
    carried = [phase for phase, prompt in prompts(shop) if CARRIED.search(prompt)]
    assert set(carried) == {"focus"}
    assert carried.count("focus") == 3


async def test_what_was_shared_and_what_was_not_is_on_the_record() -> None:
    shop = await walked([("focus", True, 0), ("operate", False, 0), ("ideate", False, 0)])
    entered = shop.events(PhaseEntered)
    told = [(each.phase, each.before, each.shared, each.hidden) for each in entered]
    assert told == [
        ("ideate", None, ("ideate",), ()),
        ("focus", "ideate", ("focus", "ideate"), ()),
        ("operate", "focus", ("focus", "operate"), ("ideate",)),
        ("ideate", "operate", ("ideate",), ("focus", "operate")),
    ]
    (carried,) = [each.carried for each in entered if each.carried]
    assert carried.text == "Summary from ideate phase: carried-to-focus"


async def test_nothing_is_carried_backward() -> None:
    shop = await walked([("operate", False, 0)])
    with pytest.raises(Refused, match="nothing goes backward"):
        await moved(shop, "ideate", "a word")


async def test_a_phase_that_is_not_there_is_refused() -> None:
    shop = await walked([("focus", False, 0)])
    with pytest.raises(Refused) as refused:
        await moved(shop, "nowhere")
    assert refused.value.code == "unknown-phase"
