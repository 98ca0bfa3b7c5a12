"""Whether older turns of a history view must be summarised before the next turn continues.

A view that has grown too long keeps its latest turns, and a model summarises all older ones. A
ladder that requests the summary is followed in its order: what the steps before it can shorten is
not summarised. This module only decides that a summary is due; the event that records the decision
determines the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from turnlog.events.model.memory_events import SummaryBegun
from turnlog.projections.blueprint.schema.budget_specs import (
    BudgetSpec,
    resolve_limit,
)
from turnlog.projections.blueprint.schema.call_specs import HistoryMessageSlot
from turnlog.projections.blueprint.schema.history_specs import SummarySpec
from turnlog.projections.blueprint.token_counters import TokenCounter, build_call_counter
from turnlog.projections.prompt.assembly_inputs import PromptTexts
from turnlog.projections.prompt.budget.trim_ladder import (
    BudgetContext,
    apply_steps_before_summary,
)
from turnlog.projections.prompt.history.history_selection import HistoryWindow, build_exchanges
from turnlog.projections.prompt.history.history_window import (
    build_history_window,
    render_history,
)
from turnlog.projections.prompt.history.memory_access import list_message_refs
from turnlog.projections.prompt.history.turn_messages import TurnExchange, count_latest_turns
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.state import (
    MAX_RECENT_TURNS,
    OpenTurn,
    SessionState,
    SettledTurnRef,
)
from turnlog.projections.session.text_refs import TextRef
from turnlog.projections.session.turn_summaries import build_ranges, iterate_turns

MAX_TOKENS_PER_CHARACTER: Final = 4
"""The maximum number of tokens of one character."""


@dataclass(frozen=True, slots=True)
class SummaryCandidate:
    """A history view of the open turn's calls that may have become too long."""

    history_window: HistoryWindow
    spec: SummarySpec
    summarised_view: str
    """The view whose settings it is summarised by."""
    budget: BudgetSpec | None
    """The budget of the call that lists the view."""
    inputs: Mapping[str, JsonValue]

    def list_refs(self, state: SessionState) -> tuple[TextRef, ...]:
        """Return the references of its texts; empty if it cannot be too long."""
        refs = tuple(self.history_window.list_refs(state))
        most = sum(ref.characters for ref in refs) * MAX_TOKENS_PER_CHARACTER
        return refs if most > self.spec.above_tokens or self.has_full_reach(state) else ()

    def has_full_reach(self, state: SessionState) -> bool:
        """Return whether it includes so many turns that the next one would push out the oldest."""
        return len(self.history_window.select_turns(state)[0]) >= MAX_RECENT_TURNS

    def has_reachable_runs(self, state: SessionState) -> bool:
        """Return whether it could include turns that the state keeps only as runs."""
        tokens = resolve_limit(self.budget.tokens, self.inputs) if self.budget else 0
        return self.history_window.has_reachable_runs(state, self.budget, tokens)


def has_summaries(material: SessionMaterial) -> bool:
    """Return whether any view of the blueprint is summarised."""
    return any(view.summary for view in material.blueprint.history.values())


def list_summary_candidates(
    material: SessionMaterial, state: SessionState, at: str, inputs: Mapping[str, JsonValue]
) -> Iterator[SummaryCandidate]:
    """Yield the views that may be summarised before the turn's first call, each once."""
    if state.open is None or not _is_at_start(state.open):
        return
    seen = set(state.open.summed)
    for kind in material.list_call_kinds(state):
        spec = material.blueprint.calls[kind]
        budget = material.blueprint.budget.get(spec.budget or "")
        for slot in spec.messages:
            name = slot.history if isinstance(slot, HistoryMessageSlot) else ""
            summary = material.blueprint.resolve_view(name).summary if name else None
            by = material.blueprint.find_summary_view(name) if summary else ""
            if summary and by not in seen:
                seen.add(by)
                yield SummaryCandidate(
                    build_history_window(material, state, at, kind, name),
                    summary,
                    by,
                    budget,
                    inputs,
                )


def _is_at_start(opened: OpenTurn) -> bool:
    return opened.summing is None and opened.context is None and opened.plan is None


def find_due_summary(
    candidate: SummaryCandidate,
    material: SessionMaterial,
    state: SessionState,
    texts: PromptTexts,
    model: str,
) -> SummaryBegun | None:
    """Return the summary to begin; None if the view is short enough or has no old turns.

    It takes all older turns, or about as much as the view may hold where its call has a budget.
    """
    counting = build_call_counter(candidate.budget, material.vocabularies, model)
    back, opened = candidate.history_window, state.open
    is_short = _measure_growth(candidate, state, texts, counting) <= candidate.spec.above_tokens
    if opened is None or (is_short and not candidate.has_full_reach(state)):
        return None
    turns, _ = back.select_turns(state)
    older = _list_older_turns(turns, candidate.spec.keep_messages)
    taken = older
    if material.blueprint.calls[candidate.spec.call].budget:
        work = back.view.of == "work"
        turns_with_exchanges = zip(
            older, build_exchanges(older, texts.by_ref, counting, work=work), strict=True
        )
        most = candidate.spec.above_tokens
        taken = [
            ref for ref, before in _sum_preceding_tokens(turns_with_exchanges) if before < most
        ]
    if not taken:
        return None
    former = back.summary
    before = iterate_turns(former.turns) if former else ()
    return SummaryBegun(
        turn=opened.turn,
        view=candidate.summarised_view,
        turns=build_ranges([*before, *(ref.turn for ref in taken)]),
        former=former.sequence if former else None,
        characters=sum(ref.characters for ref in taken) + (former.said.characters if former else 0),
    )


def _measure_growth(
    candidate: SummaryCandidate, state: SessionState, texts: PromptTexts, counting: TokenCounter
) -> int:
    """Count the tokens of a view after the steps before its summary, without turns kept whole."""
    slot = render_history(candidate.history_window, state, texts, counting)
    if candidate.budget:
        slot = apply_steps_before_summary(
            slot, BudgetContext(candidate.budget, counting, candidate.inputs)
        )
    last_whole_turn = state.whole.get(candidate.summarised_view)
    if last_whole_turn is None:
        return slot.tokens
    return sum(each.tokens for each in slot.exchanges if each.turn > last_whole_turn)


def _list_older_turns(turns: Sequence[SettledTurnRef], keep: int) -> Sequence[SettledTurnRef]:
    """Return the turns before the latest `keep` messages."""
    counts = [len(list_message_refs(ref)) for ref in turns]
    return turns[: len(turns) - count_latest_turns(counts, keep)]


def _sum_preceding_tokens(
    turns_with_exchanges: Iterable[tuple[SettledTurnRef, TurnExchange]],
) -> Iterator[tuple[SettledTurnRef, int]]:
    """Yield each turn with the tokens of the turns before it."""
    before = 0
    for ref, exchange in turns_with_exchanges:
        yield ref, before
        before += exchange.tokens
