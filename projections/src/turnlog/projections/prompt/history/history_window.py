"""History views as one call sees them: earlier turns, preceded by a summary of older ones.

A view shows a summary as long as every phase that the summary covers is visible. A call that
summarises older turns is shown those turns and the summary that it continues.

`last_messages` counts back from the latest turn before any other rule applies, so that an excluded
turn makes no room for an older one. Skipped texts are recognised by digest; turns are selected
before any text is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from turnlog.events.content import Digest, compute_digest
from turnlog.events.errors import Corrupt
from turnlog.projections.blueprint.schema.budget_specs import (
    BudgetSpec,
    get_max_characters_per_token,
)
from turnlog.projections.blueprint.schema.call_specs import HistoryMessageSlot
from turnlog.projections.blueprint.schema.history_specs import (
    CondenseMode,
    HistoryViewSpec,
    SummarySpec,
)
from turnlog.projections.blueprint.schema.layer_specs import ResultsLayer
from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.prompt.assembly_inputs import (
    ASSEMBLER_VERSION,
    PromptCall,
    PromptTexts,
    has_estimated_savings,
    has_verbatim_last_exchange,
)
from turnlog.projections.prompt.history.excluded_turns import (
    EXCLUDED,
    LAST_MESSAGES_RULE,
    NOT_SELECTED,
    PURGED,
    SKIP_RULE,
    SUMMARISED,
    ExcludedTurns,
    exclude_distant_runs,
    exclude_distant_turns,
    find_exclusion_rule,
    find_hidden_rule,
    has_usable_run,
    merge_excluded,
)
from turnlog.projections.prompt.history.history_condenser import condense_history
from turnlog.projections.prompt.history.memory_access import (
    MemoryAccess,
    build_memory_access,
    find_memory_exclusions,
    list_message_refs,
)
from turnlog.projections.prompt.history.planned_history import PlannedHistory, SummaryMessage
from turnlog.projections.prompt.history.repeated_questions import choose_repeats_rule
from turnlog.projections.prompt.history.turn_messages import (
    build_exchanges,
    find_shown_reasoning,
    list_shown_refs,
)
from turnlog.projections.prompt.sources.prior_results import find_prior_results
from turnlog.projections.prompt.sources.session_material import (
    PhaseVisibility,
    SessionMaterial,
    find_phase_visibility,
)
from turnlog.projections.session.state import MAX_RECENT_TURNS, SessionState, SettledTurnRef
from turnlog.projections.session.text_refs import TextRef
from turnlog.projections.session.turn_summaries import HistorySummary

_ASSEMBLER_OF_VERBATIM_MESSAGES: Final = 2
"""The first assembler that condenses nothing in the messages that a view keeps beside a summary."""

_ASSEMBLER_OF_LISTED_RESULTS: Final = 3
"""The first assembler that shows the work of a turn without the results that a layer lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryWindow:
    """One history view as one call sees it, or the memory as one reader sees it."""

    view: HistoryViewSpec
    visibility: PhaseVisibility
    access: MemoryAccess | None
    """Limits of the memory policy; None where no policy applies."""
    summary: HistorySummary | None = None
    """The summary that replaces older turns."""
    name: str = ""
    """The blueprint's name of the view."""
    listed_turn: int | None = None
    """The turn whose tool results a layer of the same call lists."""
    condense: tuple[CondenseMode, ...] = ()
    """What is shortened, in this order."""
    model: str = ""
    """The model that is asked; empty where nobody asks one."""

    def select_turns(self, state: SessionState) -> SelectedTurns:
        """Split the settled turns into those it includes and the excluded ones."""
        view, visibility = self.view, self.visibility
        far = 0 if view.all else max(0, len(state.turns) - MAX_RECENT_TURNS)
        recent, hidden_ranges = state.turns[far:], self._list_hidden_ranges(state)
        usable = [ref for ref in recent if ref.characters]
        if visibility.phases is not None:
            usable = [ref for ref in usable if visibility.can_show(ref.phase)]
        if hidden_ranges:
            usable = [ref for ref in usable if not find_hidden_rule(ref.turn, hidden_ranges)]
        if skipped := self._find_skipped_turns(recent):
            usable = [ref for ref in usable if ref.turn not in skipped]
        over = 0 if view.max_turns is None else max(0, len(usable) - view.max_turns)
        rules = {ref.turn: "max_turns" for ref in usable[:over]}
        rules |= find_memory_exclusions(self.access, usable[over:]) if self.access else {}
        if len(usable) < len(recent):
            rules |= skipped
            rules |= {
                ref.turn: rule
                for ref in recent
                if (rule := find_exclusion_rule(ref, visibility, hidden_ranges))
            }
        out = list(exclude_distant_runs(state.earlier, visibility, hidden_ranges))
        for ref in state.turns[:far]:
            out += exclude_distant_turns(
                first=ref.turn,
                last=ref.turn,
                phase=ref.phase,
                visibility=visibility,
                hidden_ranges=hidden_ranges,
            )
        out += [ExcludedTurns(turn, turn, rule) for turn, rule in rules.items()]
        included = tuple([ref for ref in usable if ref.turn not in rules])
        return SelectedTurns(self, included, merge_excluded(out))

    def estimate_excluded(
        self, left_out: tuple[ExcludedTurns, ...], state: SessionState, counting: TokenCounter
    ) -> tuple[ExcludedTurns, ...]:
        """Return the excluded turns with what excluding and purging saves.

        Turns that the view or its reach would leave out in any case save nothing.
        """
        if not any(run.rule in {EXCLUDED, PURGED} for run in left_out):
            return left_out
        skipped = self._find_skipped_turns(state.turns)
        sizes = {
            ref.turn: sum(
                counting.estimate_tokens(each.characters) for each in list_message_refs(ref)
            )
            for ref in state.turns
            if ref.is_usable and ref.turn not in skipped
        }
        return tuple(
            replace(run, saved=_sum_range(sizes, run)) if run.rule in {EXCLUDED, PURGED} else run
            for run in left_out
        )

    def has_reachable_runs(
        self, state: SessionState, budget: BudgetSpec | None = None, tokens: int = 0
    ) -> bool:
        """Return whether it could include turns that the state keeps only as runs.

        `tokens` is the limit of the budget.
        """
        view, visibility = self.view, self.visibility
        if not has_usable_run(state.earlier, visibility, self._list_hidden_ranges(state)):
            return False
        if view.all or view.of == "selected":
            return True
        sized = [(ref, ref.characters) for ref in state.turns if visibility.can_show(ref.phase)]
        usable = [ref for ref, characters in sized if characters]
        if self.access and (
            self.access.denial_reason or find_memory_exclusions(self.access, usable)
        ):
            return False
        if self._has_enough_messages(state.turns):
            return False
        most = MAX_RECENT_TURNS if view.max_turns is None else view.max_turns
        if len(state.turns) >= MAX_RECENT_TURNS or len(usable) >= most:
            return False
        if budget is None:
            return True
        reachable_characters = sum([characters for _, characters in sized])
        return reachable_characters < tokens * get_max_characters_per_token(budget.counter)

    def needs_every_turn(self, state: SessionState) -> bool:
        """Return whether turns before the latest `MAX_RECENT_TURNS` count one by one.

        A view of the whole history includes them, and what a purge saves is their sum.
        """
        return self.view.all or state.purged > 0

    def _find_skipped_turns(self, turns: Iterable[SettledTurnRef]) -> dict[int, str]:
        """Return the turns that the view's options exclude, each with the name of the option."""
        rules: dict[int, str] = {}
        if self.view.skip:
            texts = _compute_digests(self.view.skip)
            rules |= {ref.turn: SKIP_RULE for ref in turns if texts.issuperset(_list_digests(ref))}
        if (most := self.view.last_messages) is not None:
            replied = _list_usable_turns(turns, self.visibility)
            rules |= dict.fromkeys(_list_turns_before(replied, most), LAST_MESSAGES_RULE)
        return rules

    def _has_enough_messages(self, turns: Iterable[SettledTurnRef]) -> bool:
        """Return whether these turns fill the view's `last_messages`."""
        if self.view.last_messages is None:
            return False
        replied = _list_usable_turns(turns, self.visibility)
        return sum(len(list_message_refs(ref)) for ref in replied) >= self.view.last_messages

    def _list_hidden_ranges(self, state: SessionState) -> tuple[ExcludedTurns, ...]:
        """Return the ranges that are hidden whatever the turns' status; the first match wins."""
        hidden_ranges = [ExcludedTurns(1, state.purged, PURGED)] if state.purged else []
        if self.summary is not None:
            hidden_ranges += [
                ExcludedTurns(each.first, each.last, SUMMARISED) for each in self.summary.turns
            ]
        if self.view.of == "selected":
            hidden_ranges += _list_unselected_ranges(state)
        return tuple(hidden_ranges)


@dataclass(frozen=True, slots=True)
class SelectedTurns:
    """The turns of a window, selected once: those it includes, oldest first, and the others."""

    window: HistoryWindow
    turns: tuple[SettledTurnRef, ...]
    left_out: tuple[ExcludedTurns, ...]

    def list_refs(self) -> Sequence[TextRef]:
        """Return the references of all texts that the window shows."""
        summary, work = self.window.summary, self.window.view.of == "work"
        shown = [
            ref
            for turn in self.turns
            for ref in (*list_shown_refs(turn, work=work), *turn.outcome_refs)
            if ref
        ]
        if kept := self.window.view.reasoning:
            model = self.window.model
            reasoned = (find_shown_reasoning(turn, model, kept) for turn in self.turns)
            shown += [each.said for each in reasoned if each]
        return [summary.said, *shown] if summary else shown


def _list_usable_turns(
    turns: Iterable[SettledTurnRef], visibility: PhaseVisibility
) -> list[SettledTurnRef]:
    return [ref for ref in turns if ref.is_usable and visibility.can_show(ref.phase)]


def _list_turns_before(turns: Sequence[SettledTurnRef], most: int) -> Iterator[int]:
    """Yield the turns that are not wholly within the latest `most` messages."""
    for ref in reversed(turns):
        most -= len(list_message_refs(ref))
        if most < 0:
            yield ref.turn


def _list_digests(ref: SettledTurnRef) -> Iterator[Digest]:
    return (message_ref.digest for message_ref in list_message_refs(ref))


@lru_cache(64)
def _compute_digests(texts: tuple[str, ...]) -> frozenset[Digest]:
    return frozenset(map(compute_digest, texts))


def _list_unselected_ranges(state: SessionState) -> Iterator[ExcludedTurns]:
    """Yield the ranges of turns that are not selected for a summary."""
    pending_summary = state.open.summing if state.open else None
    behind = 1
    for each in pending_summary.turns if pending_summary else ():
        if each.first > behind:
            yield ExcludedTurns(behind, each.first - 1, NOT_SELECTED)
        behind = each.last + 1
    if behind <= state.submitted:
        yield ExcludedTurns(behind, state.submitted, NOT_SELECTED)


def _sum_range(sizes: Mapping[int, int], run: ExcludedTurns) -> int:
    return sum(size for turn, size in sizes.items() if run.first <= turn <= run.last)


def list_history_windows(
    material: SessionMaterial, state: SessionState, call: PromptCall
) -> tuple[HistoryWindow, ...]:
    """Return the history views that a call lists."""
    slots = material.blueprint.calls[call.kind].messages
    named = (slot.history for slot in slots if isinstance(slot, HistoryMessageSlot))
    return tuple(
        build_history_window(
            material=material,
            state=state,
            at=call.at,
            kind=call.kind,
            name=name,
            model=call.model,
        )
        for name in named
    )


def build_history_window(
    material: SessionMaterial, state: SessionState, at: str, kind: str, name: str, model: str = ""
) -> HistoryWindow:
    """Return a history view of a kind of call, at a clock reading `at`.

    What `model` reasoned is shown to it alone.
    """
    view, seen = material.blueprint.resolve_view(name), find_phase_visibility(material, state)
    recall = build_memory_access(material.memory, view.memory, state, at)
    summary = _find_summary(material=material, state=state, name=name, view=view, seen=seen)
    listed_turn = _find_listed_turn(material, state, kind) if view.of == "work" else None
    return HistoryWindow(
        view=view,
        visibility=seen,
        access=recall,
        summary=summary,
        name=name,
        listed_turn=listed_turn,
        condense=material.blueprint.resolve_condensing(name, state.profile),
        model=model,
    )


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
    selected: SelectedTurns,
    state: SessionState,
    texts: PromptTexts,
    counting: TokenCounter,
    assembler: int = ASSEMBLER_VERSION,
    limit: int | None = None,
) -> PlannedHistory:
    """Return the messages of a view; raises `Corrupt` if a text was not fetched.

    `limit` is that of its component. Above it, or once a summary replaces older turns, the messages
    that the view keeps are verbatim; the last exchange always is. The tokens of media are those of
    the model that the window is of.
    """
    back, left_out = selected.window, selected.left_out
    has_estimates = has_estimated_savings(assembler)
    if has_estimates and back.view.of != "selected":
        left_out = back.estimate_excluded(left_out, state, counting)
    work = back.view.of == "work"
    listed_turn = back.listed_turn if assembler >= _ASSEMBLER_OF_LISTED_RESULTS else None
    exchanges = tuple(
        build_exchanges(
            selected.turns,
            texts.by_ref,
            counting,
            model=back.model,
            work=work,
            listed_turn=listed_turn,
            kept_reasoning=back.view.reasoning,
        )
    )
    summary_message = (
        _build_summary_message(back.summary, texts, counting, has_estimates=has_estimates)
        if back.summary
        else None
    )
    slot = PlannedHistory(
        view=back.name,
        exchanges=exchanges,
        left_out=left_out,
        shows_work=work,
        summary=summary_message,
        repeats=choose_repeats_rule(assembler),
        verbatim_repeats=has_verbatim_last_exchange(assembler),
        keeps_reasoning=back.view.reasoning is not None,
    )
    verbatim = _count_verbatim_messages(slot, back.view.summary, limit, assembler)
    return condense_history(replace(slot, verbatim_messages=verbatim), back.condense, counting)


def _count_verbatim_messages(
    slot: PlannedHistory, summary: SummarySpec | None, limit: int | None, assembler: int
) -> int:
    """Return how many of the latest messages of a view stay verbatim."""
    kept = summary.keep_messages if summary else 0
    if not has_verbatim_last_exchange(assembler):
        is_kept = slot.summary is not None and assembler >= _ASSEMBLER_OF_VERBATIM_MESSAGES
        return kept if is_kept else 0
    most = (summary.above_tokens if summary else None) or limit
    is_long = slot.summary is not None or most is None or slot.tokens > most
    return max(1, kept) if is_long else 1


def _build_summary_message(
    summary: HistorySummary, texts: PromptTexts, counting: TokenCounter, *, has_estimates: bool
) -> SummaryMessage:
    text = texts.by_ref.get(summary.said)
    if text is None:
        raise Corrupt(f"summary {summary.sequence}", "its text was not fetched")
    tokens = counting.count_tokens(text)
    full_tokens = counting.estimate_tokens(summary.characters) if has_estimates else 0
    return SummaryMessage(
        text_ref=summary.said, text=text, tokens=tokens, saved=max(0, full_tokens - tokens)
    )
