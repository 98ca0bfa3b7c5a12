"""Invariants of every window of every shipped blueprint, for any session."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.support.generators.reference_assembler import is_kept
from tests.support.generators.session_strategies import (
    SessionRequest,
    continue_session,
    draw_requests,
    fewer_examples,
)
from tests.support.sessions.prompt_assembly import build_blobs
from tests.support.sessions.shipped_sessions import (
    SHIPPED_BLUEPRINTS,
    SHIPPED_SEGMENTS,
    ShippedSession,
)
from turnlog.events.errors import Refused
from turnlog.events.model.manifest import HistorySource, PromptPart
from turnlog.projections.audit.record.prompt_readback import read_prompt
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt, PromptCall
from turnlog.projections.prompt.budget.budget_error import BudgetExceeded
from turnlog.projections.session.commands import SubmitTurn
from turnlog.projections.session.evolve import fold, fold_unbounded
from turnlog.projections.session.state import SessionState
from turnlog.projections.session_views.session_history import build_history
from turnlog.projections.testing import DEFAULT_POLICIES, STATE_ADAPTER, SessionScenario

pytestmark = pytest.mark.slow("many generated cases are tried")

INPUTS: dict[str, JsonValue] = {"npcs": [{"npc": "npc.a", "tier": 1}], "game_state": "Dusk."}


@dataclass(frozen=True, slots=True)
class ShippedCallCase:
    """A session of a shipped blueprint and one of its calls."""

    shipped: ShippedSession
    session: SessionScenario = field(repr=False)
    call: PromptCall = field(repr=False)

    @property
    def found(self) -> AssembledPrompt | Refused:
        """The prompt, or why there is none."""
        try:
            return self.assemble_from_state(self.session.opened_state)
        except Refused as refused:
            return refused

    @property
    def assembled(self) -> AssembledPrompt:
        """The prompt, in those cases that have one."""
        found = self.found
        assume(isinstance(found, AssembledPrompt))
        assert isinstance(found, AssembledPrompt)
        return found

    def assemble_from_state(self, state: SessionState) -> AssembledPrompt:
        """Assemble it from a state."""
        return self.shipped.assemble_call(state, self.session.events, self.call)

    @property
    def blobs(self) -> dict[str, str]:
        """The texts of its prompts that are not turn texts."""
        return build_blobs(self.shipped.files) | {
            each.source.digest: each.text for each in SHIPPED_SEGMENTS
        }


@st.composite
def draw_case(draw: st.DrawFn) -> ShippedCallCase:
    name = draw(st.sampled_from(SHIPPED_BLUEPRINTS.list_names()))
    tokens = draw(st.none() | st.integers(1, 600))
    shipped = ShippedSession(name, tokens, INPUTS if name == "game-master" else {})
    session = continue_session(shipped.open_session(), draw(draw_requests(most=12)))
    if session.opened_state.open is None:
        text = draw(st.text("ab. ", max_size=60))
        session = session.apply_steps(
            SubmitTurn(text=text, policies=DEFAULT_POLICIES, inputs={**shipped.inputs})
        )
    kind = draw(st.sampled_from(sorted(shipped.material.blueprint.calls)))
    return ShippedCallCase(shipped, session, shipped.build_call(session.opened_state, kind))


@fewer_examples
@given(draw_case())
def test_window_is_within_its_budget_or_budget_exceeded_lists_the_sizes(
    case: ShippedCallCase,
) -> None:
    found = case.found
    if isinstance(found, Refused):
        assert isinstance(found, BudgetExceeded)
        assert found.tokens > found.limit
        assert found.sizes
    else:
        manifest = found.manifest
        assert manifest.budget is None or manifest.tokens <= manifest.budget
        assert manifest.tokens == sum(part.tokens for part in manifest.parts)


@fewer_examples
@given(draw_case())
def test_required_layers_are_included_and_every_omitted_part_has_a_rule(
    case: ShippedCallCase,
) -> None:
    blueprint = case.shipped.material.blueprint
    parts = case.assembled.manifest.parts
    for layer in blueprint.calls[case.call.kind].layers:
        mine = [part for part in parts if part.layer == layer]
        assert mine
        always = layer in blueprint.layers and blueprint.layers[layer].keep
        assert not always or any(p.is_included or p.rule == "nothing to say" for p in mine)
        assert all(part.is_included or part.rule for part in mine)


@fewer_examples
@given(draw_case())
def test_characters_of_the_parts_add_up_to_each_message(case: ShippedCallCase) -> None:
    found = case.assembled
    lengths: dict[int, int] = {}
    for part in found.manifest.parts:
        if part.message is not None and not isinstance(part.source, HistorySource):
            lengths[part.message] = lengths.get(part.message, 0) + part.characters
    messages = found.request.messages
    assert all(len(messages[place].content) == length for place, length in lengths.items())


@fewer_examples
@given(draw_case())
def test_excluded_turns_and_cut_ones_that_are_dropped_are_in_no_window(
    case: ShippedCallCase,
) -> None:
    turns = build_history(case.session.events)
    usable = {turn.turn for turn in turns if is_kept(turn) and not turn.excluded}
    assert list_kept_turns(case.assembled.manifest.parts) <= usable


def list_kept_turns(parts: tuple[PromptPart, ...]) -> set[int]:
    """Number the turns that stand in a prompt."""
    runs = [
        part.source for part in parts if part.is_included and isinstance(part.source, HistorySource)
    ]
    return {turn for run in runs for turn in range(run.first, run.last + 1)}


@fewer_examples
@given(draw_case())
def test_window_reads_back_byte_for_byte_and_is_reassembled_from_any_fold_or_snapshot(
    case: ShippedCallCase,
) -> None:
    found, events = case.assembled, case.session.events
    assert read_prompt(found.manifest, events, case.blobs) == found.request.messages
    snapshot = STATE_ADAPTER.validate_json(STATE_ADAPTER.dump_json(case.session.opened_state))
    for state in (fold(events), fold_unbounded(events), snapshot):
        assert state is not None
        assert case.assemble_from_state(state).request.digest == found.manifest.digest


@fewer_examples
@given(draw_case(), draw_requests(most=8))
def test_window_reads_back_unchanged_after_any_later_events(
    case: ShippedCallCase, requests: list[SessionRequest]
) -> None:
    found = case.assembled
    later = continue_session(case.session, requests)
    assert read_prompt(found.manifest, later.events, case.blobs) == found.request.messages
