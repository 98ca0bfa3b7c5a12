"""History views as one call sees them: earlier turns, preceded by a summary of older ones.

A view shows a summary as long as every phase that the summary covers is visible. A call that
summarises older turns is shown those turns and the summary that it continues.
"""

from __future__ import annotations

from typing import Final

from turnlog.events.errors import Corrupt
from turnlog.projections.blueprint.schema.call_specs import HistoryMessageSlot
from turnlog.projections.blueprint.schema.history_specs import HistoryViewSpec
from turnlog.projections.blueprint.schema.layer_specs import ResultsLayer
from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.prompt.assembly_inputs import (
    ASSEMBLER_VERSION,
    PromptCall,
    PromptTexts,
    has_estimated_savings,
)
from turnlog.projections.prompt.history.history_condenser import condense_history
from turnlog.projections.prompt.history.history_selection import (
    HistoryWindow,
    build_exchanges,
)
from turnlog.projections.prompt.history.memory_access import build_memory_access
from turnlog.projections.prompt.history.planned_history import PlannedHistory, SummaryMessage
from turnlog.projections.prompt.history.repeated_questions import choose_repeats_rule
from turnlog.projections.prompt.sources.prior_results import find_prior_results
from turnlog.projections.prompt.sources.session_material import (
    PhaseVisibility,
    SessionMaterial,
    find_phase_visibility,
)
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.turn_summaries import HistorySummary

_ASSEMBLER_OF_LISTED_RESULTS: Final = 3
"""The first assembler that shows the work of a turn without the results that a layer lists."""


def list_history_windows(
    material: SessionMaterial, state: SessionState, call: PromptCall
) -> tuple[HistoryWindow, ...]:
    """Return the history views that a call lists."""
    slots = material.blueprint.calls[call.kind].messages
    named = (slot.history for slot in slots if isinstance(slot, HistoryMessageSlot))
    return tuple(build_history_window(material, state, call.at, call.kind, name) for name in named)


def build_history_window(
    material: SessionMaterial, state: SessionState, at: str, kind: str, name: str
) -> HistoryWindow:
    """Return a history view of a kind of call, at a clock reading `at`."""
    view, seen = material.blueprint.resolve_view(name), find_phase_visibility(material, state)
    recall = build_memory_access(material.memory, view.memory, state, at)
    summary = _find_summary(material, state, name, view, seen)
    listed_turn = _find_listed_turn(material, state, kind) if view.of == "work" else None
    return HistoryWindow(view, seen, recall, summary, name, listed_turn)


def _find_listed_turn(material: SessionMaterial, state: SessionState, kind: str) -> int | None:
    """Return the turn whose results a layer of the call always lists, or None."""
    specs = material.blueprint.layers
    layers = (specs.get(name) for name in material.blueprint.calls[kind].layers)
    if not any(isinstance(layer, ResultsLayer) and layer.when is None for layer in layers):
        return None
    has_results = state.returns and find_prior_results(material, state).results
    return state.returns.turn if state.returns and has_results else None


def _find_summary(
    material: SessionMaterial,
    state: SessionState,
    name: str,
    view: HistoryViewSpec,
    seen: PhaseVisibility,
) -> HistorySummary | None:
    if view.of == "selected":
        pending_summary = state.open.summing if state.open else None
        former = pending_summary.former if pending_summary else None
        return next((each for each in state.summaries if each.sequence == former), None)
    by = material.blueprint.find_summary_view(name) if view.summary else ""
    candidates = (each for each in reversed(state.summaries) if each.view == by)
    return next((each for each in candidates if all(map(seen.can_show, each.phases))), None)


def render_history(
    back: HistoryWindow,
    state: SessionState,
    texts: PromptTexts,
    counting: TokenCounter,
    assembler: int = ASSEMBLER_VERSION,
) -> PlannedHistory:
    """Return the messages of a view; raises `Corrupt` if a text was not fetched.

    Once a summary replaces older turns, the messages that the view keeps beside it are verbatim.
    """
    turns, left_out = back.select_turns(state)
    has_estimates = has_estimated_savings(assembler)
    if has_estimates and back.view.of != "selected":
        left_out = back.estimate_excluded(left_out, state, counting)
    work = back.view.of == "work"
    listed_turn = back.listed_turn if assembler >= _ASSEMBLER_OF_LISTED_RESULTS else None
    exchanges = tuple(
        build_exchanges(turns, texts.by_ref, counting, work=work, listed_turn=listed_turn)
    )
    summary_message = (
        _build_summary_message(back.summary, texts, counting, has_estimates=has_estimates)
        if back.summary
        else None
    )
    kept = back.view.summary.keep_messages if summary_message and back.view.summary else 0
    slot = PlannedHistory(
        back.name,
        exchanges,
        left_out,
        work,
        summary_message,
        choose_repeats_rule(assembler),
        kept if assembler > 1 else 0,
    )
    return condense_history(slot, back.view.condense, counting)


def _build_summary_message(
    summary: HistorySummary, texts: PromptTexts, counting: TokenCounter, *, has_estimates: bool
) -> SummaryMessage:
    text = texts.by_ref.get(summary.said)
    if text is None:
        raise Corrupt(f"summary {summary.sequence}", "its text was not fetched")
    tokens = counting.count_tokens(text)
    full_tokens = counting.estimate_tokens(summary.characters) if has_estimates else 0
    return SummaryMessage(summary.said, text, tokens, saved=max(0, full_tokens - tokens))
