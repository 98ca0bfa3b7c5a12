"""What a session settles when it enters a phase that may not see the one before."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from tests.parts.led import PHASES, led_by
from turnlog.events.phase import PhaseEntered
from turnlog.events.reference import ReferenceUpdated
from turnlog.events.tokens import ToolRequest
from turnlog.projections.blueprint.phases import PhaseGraph
from turnlog.projections.session.commands import CompleteTurn
from turnlog.projections.testing import (
    SPENT,
    Asked,
    Given,
    attempt_of,
    claiming,
    exchange,
    given,
    opening,
    saying,
)
from turnlog.projections.window.material import Material

APART: dict[str, JsonValue] = {"can_see": {"talk": ["talk"], "pick": ["pick"]}}
TALKING = given(opening(), PhaseEntered(phase="talk"))


def graph(**more: JsonValue) -> PhaseGraph:
    """Return a phase graph whose dialogue ends by a signal."""
    drawn: dict[str, JsonValue] = {
        "from": "cartridge.phases",
        "signals": {"understood": "on_success"},
        "calls": {"freeform": "reply", "debrief": "reply"},
    }
    found = Material(led_by(phases=drawn | more), {"phases": PHASES}).phases
    assert found is not None
    return found


def ending(phases: PhaseGraph) -> Asked:
    """Complete the open turn and end its phase."""
    wanted = ToolRequest(id="t", tool="transition_phase", arguments='{"signal": "understood"}')
    return lambda state: CompleteTurn(attempt_of(state), "So.", "stop", SPENT, phases, (wanted,))


def waiting() -> Given:
    """Return a session with one open turn and one that waits."""
    return TALKING.later(saying("one"), saying("two"), claiming())


def test_a_turn_that_waits_is_given_up_with_the_phase_it_was_said_in() -> None:
    after = (
        waiting()
        .when(ending(graph(**APART)))
        .then_names(
            *("attempt-ended", "call-completed", "tool-called", "tool-returned", "turn-completed"),
            *("turn-cancelled", "phase-entered"),
        )
    )
    state = after.state
    assert state is not None
    assert (state.open, state.waiting, state.phase) == (None, (), "pick")
    gone = state.turns[-1]
    assert (gone.turn, gone.status, gone.phase) == (2, "cancelled", "talk")


def test_it_goes_on_waiting_where_every_phase_sees_the_others() -> None:
    after = waiting().when(ending(graph()))
    assert [event.type for event in after.events[-2:]] == [
        "turnlog.phase-entered.v1",
        "turnlog.turn-released.v1",
    ]


@pytest.mark.parametrize(("hidden", "kept"), [(("talk",), False), ((), True)])
def test_what_a_turn_was_about_is_not_inherited_where_it_may_not_be_seen(
    hidden: tuple[str, ...], *, kept: bool
) -> None:
    about = ReferenceUpdated(turn=1, identifiers={"order": "A-17"})
    session = TALKING.later(*exchange("What of A-17?", "It left."), about)
    moved = session.later(PhaseEntered(phase="pick", before="talk", hidden=hidden)).state
    assert moved is not None
    assert (moved.reference is not None) == kept
