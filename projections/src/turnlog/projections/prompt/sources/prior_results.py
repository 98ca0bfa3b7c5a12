"""Tool results for the next call: those of the previous turn, and those of the open turn.

A plan may reuse a result of the previous turn instead of calling the tool again. The prompt shows
the summary of each under a name that a step can refer to. A step that does is done without a call,
and the result counts among those of its own turn. Which results may be shown is decided for every
prompt, so a result of a turn that was excluded or redacted meanwhile also disappears from the turn
that was to reuse it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from turnlog.projections.blueprint.schema.layer_specs import StepLayer
from turnlog.projections.prompt.sources.session_material import (
    HIDDEN_PHASE,
    SessionMaterial,
    find_phase_visibility,
)
from turnlog.projections.session.fold.settled_turns import find_settled_turn
from turnlog.projections.session.next_call import find_current_step
from turnlog.projections.session.open_turn import OpenTurn
from turnlog.projections.session.state import SessionState, SettledTurnRef
from turnlog.projections.session.text_refs import TextRef
from turnlog.projections.session.tool_uses import ToolResultRef


@dataclass(frozen=True, slots=True)
class PriorResults:
    """The results of the previous turn that may be shown."""

    results: tuple[ToolResultRef, ...] = ()
    reason: str | None = None
    """Why there are none, if some were recorded."""


def find_prior_results(material: SessionMaterial, state: SessionState) -> PriorResults:
    """Return the results of the previous turn that may be shown now."""
    returns = state.returns
    if returns is None:
        return PriorResults()
    turn = find_settled_turn(state, returns.turn)
    if turn is None or turn.excluded:
        return PriorResults(reason="excluded")
    results = returns.results
    if turn.redacted:
        kept = turn.results if isinstance(turn, SettledTurnRef) else ()
        results = tuple([each for each in results if each.summary in kept])
    if not results:
        return PriorResults(reason="redacted")
    if not find_phase_visibility(material, state).can_show(returns.phase):
        return PriorResults(reason=HIDDEN_PHASE)
    return PriorResults(results) if material.has_memory else PriorResults(reason="memory off")


def list_condensed_refs(state: SessionState) -> dict[TextRef, int]:
    """Return the references of texts that condense a tool result, each with its full length."""
    used = [use.result for use in state.open.tools if use.result] if state.open else []
    before = state.returns.results if state.returns else ()
    now = {result.said: result.characters for result in used if result.distilled}
    return now | {ref: result.characters for result in before for ref in result.condensed_texts}


def label_results(results: Sequence[ToolResultRef]) -> Iterator[tuple[str, ToolResultRef]]:
    """Yield each result with the name that a plan refers to it by: `r1`."""
    return ((f"r{place}", result) for place, result in enumerate(results, 1))


def list_reused_results(
    opened: OpenTurn, results: Sequence[ToolResultRef]
) -> Iterator[ToolResultRef]:
    """Yield the reused results of a turn's steps, in the order of the plan."""
    known = {given.said.sequence: given for given in results}
    planned = opened.plan.steps if opened.plan else ()
    steps = {step.given: None for step in planned if step.given is not None}
    return (known[sequence] for sequence in steps if sequence in known)


@dataclass(frozen=True, slots=True)
class StepText:
    """A text of a step layer, and the texts that may replace it."""

    said: TextRef
    shorter: tuple[TextRef, ...] = ()
    """The longest first."""


def list_step_texts(
    layer: StepLayer, material: SessionMaterial, state: SessionState
) -> tuple[StepText, ...]:
    """Return the texts of a step layer, oldest first."""
    opened = state.open
    match layer.step:
        case "goal":
            step = find_current_step(opened)
            return (StepText(step.goal),) if step else ()
        case "results":
            return _list_result_texts(opened, material, state) if opened else ()
        case _ as never:
            assert_never(never)


def _list_result_texts(
    opened: OpenTurn, material: SessionMaterial, state: SessionState
) -> tuple[StepText, ...]:
    """Return the reused results and then those of the turn's own tools."""
    given = list_reused_results(opened, find_prior_results(material, state).results)
    own = (use.result for use in opened.tools if use.result)
    return tuple(StepText(each.said, each.shorter_refs) for each in (*given, *own))
