"""What a session settles when it enters a phase that may not see the one before."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from tests.support.generators.tracked_session import TRACKED_PHASES, build_tracked_blueprint
from turnlog.events.model.session_events import PhaseEntered
from turnlog.events.model.turn_events import ReferenceUpdated
from turnlog.events.tokens import ToolRequest
from turnlog.projections.blueprint.schema.phase_specs import PhaseGraph
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import CompleteTurn
from turnlog.projections.testing import (
    SAMPLE_SPENT,
    CommandOrFactory,
    SessionScenario,
    build_exchange,
    claim_turn,
    get_attempt,
    given,
    open_session,
    submit_turn,
)

APART: dict[str, JsonValue] = {"can_see": {"talk": ["talk"], "pick": ["pick"]}}

TALKING = given(open_session(), PhaseEntered(phase="talk"))


def build_phase_graph(**more: JsonValue) -> PhaseGraph:
    """Return a phase graph whose dialogue ends by a signal."""
    drawn: dict[str, JsonValue] = {
        "from": "cartridge.phases",
        "signals": {"understood": "on_success"},
        "calls": {"freeform": "reply", "debrief": "reply"},
    }
    found = SessionMaterial(
        blueprint=build_tracked_blueprint(phases=drawn | more), cartridge={"phases": TRACKED_PHASES}
    ).phases
    assert found is not None
    return found


def build_phase_end(phases: PhaseGraph) -> CommandOrFactory:
    """Answer the open turn and end its phase."""
    request = ToolRequest(id="t", tool="transition_phase", arguments='{"signal": "understood"}')
    return lambda state: CompleteTurn(
        attempt=get_attempt(state),
        text="So.",
        finish="stop",
        spent=SAMPLE_SPENT,
        phases=phases,
        tools=(request,),
    )


def build_waiting_session() -> SessionScenario:
    """Let one turn wait for another."""
    return TALKING.apply_steps(submit_turn("one"), submit_turn("two"), claim_turn())


def test_queued_turn_is_cancelled_when_its_isolated_phase_ends() -> None:
    after = (
        build_waiting_session()
        .when(build_phase_end(build_phase_graph(**APART)))
        .then_names(
            *("call-completed", "tool-called", "tool-returned", "turn-completed"),
            *("turn-cancelled", "phase-entered"),
        )
    )
    state = after.state
    assert state is not None
    assert (state.open, state.waiting, state.phase) == (None, (), "pick")
    cancelled = state.turns[-1]
    assert (cancelled.turn, cancelled.status, cancelled.phase) == (2, "cancelled", "talk")


def test_queued_turn_is_released_after_a_phase_change_without_isolation() -> None:
    after = build_waiting_session().when(build_phase_end(build_phase_graph()))
    assert [event.type for event in after.events[-2:]] == [
        "turnlog.phase-entered.v1",
        "turnlog.turn-released.v1",
    ]


@pytest.mark.parametrize(("hidden", "kept"), [(("talk",), False), ((), True)])
def test_references_are_not_inherited_from_a_hidden_phase(
    hidden: tuple[str, ...], *, kept: bool
) -> None:
    about = ReferenceUpdated(turn=1, identifiers={"order": "A-17"})
    session = TALKING.apply_steps(*build_exchange("What of A-17?", "It left."), about)
    moved = session.apply_steps(PhaseEntered(phase="pick", before="talk", hidden=hidden)).state
    assert moved is not None
    assert bool(moved.references) == kept
