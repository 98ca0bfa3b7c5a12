"""Turns that a view leaves out, each with the rule that excludes it, as ranges of turn numbers.

A turn that no other rule excludes is out of reach when the state keeps it only in a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from turnlog.projections.prompt.history.memory_access import list_message_refs
from turnlog.projections.prompt.sources.session_material import HIDDEN_PHASE, PhaseVisibility
from turnlog.projections.session.state import SettledTurnRef, SettledTurnRun

LAST_MESSAGES_RULE: Final = "last_messages"

SKIP_RULE: Final = "skip"

OUT_OF_REACH: Final = "out of reach"
"""The rule of turns that are older than any view looks."""

PURGED: Final = "purged"
"""The rule of turns from before the memory was purged."""

EXCLUDED: Final = "excluded"
"""The rule of turns that a caller excluded."""

SUMMARISED: Final = "summarised"
"""The rule of turns that a summary replaces."""

LIMIT_RULES: Final = frozenset({"max_turns", "max_chars", LAST_MESSAGES_RULE, OUT_OF_REACH})
"""Rules by which later turns push earlier ones out."""

DROP_TURNS_RULE: Final = "drop_oldest_pairs"
"""The rule of turns that the ladder step of this name dropped."""

NOT_SELECTED: Final = "not selected"
"""The rule of turns that a call is not asked to summarise."""


@dataclass(frozen=True, slots=True)
class ExcludedTurns:
    """Turns that are not in a view, all for the same reason."""

    first: int
    last: int
    rule: str
    saved: int = 0
    """Tokens that are saved because another text has the same content."""


def find_hidden_rule(turn: int, hidden_ranges: tuple[ExcludedTurns, ...]) -> str | None:
    return next(
        (hidden.rule for hidden in hidden_ranges if hidden.first <= turn <= hidden.last), None
    )


def exclude_distant_runs(
    runs: Iterable[SettledTurnRun],
    visibility: PhaseVisibility,
    hidden_ranges: tuple[ExcludedTurns, ...],
) -> Iterator[ExcludedTurns]:
    """Yield why the turns of runs are excluded, in order; only their phase tells runs apart."""
    for first, last, phase in _join_runs(runs):
        yield from exclude_distant_turns(
            first=first, last=last, phase=phase, visibility=visibility, hidden_ranges=hidden_ranges
        )


def _join_runs(runs: Iterable[SettledTurnRun]) -> Iterator[tuple[int, int, str | None]]:
    """Yield the ranges of adjacent turns of one phase, each with its phase.

    Every failed turn begins a run, so a long session has hundreds of them in a few ranges.
    """
    first, last, phase = 0, 0, None
    for run in runs:
        if first and run.first == last + 1 and run.phase == phase:
            last = run.last
            continue
        if first:
            yield first, last, phase
        first, last, phase = run.first, run.last, run.phase
    if first:
        yield first, last, phase


def has_usable_run(
    runs: Sequence[SettledTurnRun],
    visibility: PhaseVisibility,
    hidden_ranges: tuple[ExcludedTurns, ...],
) -> bool:
    """Return whether only the reach of the state keeps a usable turn of a run out."""
    distant = [
        excluded
        for excluded in exclude_distant_runs(runs, visibility, hidden_ranges)
        if excluded.rule == OUT_OF_REACH
    ]
    return any(
        run.is_usable
        and not run.excluded
        and run.first <= excluded.last
        and excluded.first <= run.last
        for excluded in reversed(distant)
        for run in reversed(runs)
    )


def exclude_distant_turns(
    first: int,
    last: int,
    phase: str | None,
    visibility: PhaseVisibility,
    hidden_ranges: tuple[ExcludedTurns, ...],
) -> Iterator[ExcludedTurns]:
    """Yield why turns beyond the view are excluded, split where the reason changes."""
    if not visibility.can_show(phase):
        yield ExcludedTurns(first, last, HIDDEN_PHASE)
        return
    cuts = {place for hidden in hidden_ranges for place in (hidden.first, hidden.last + 1)}
    begins = [first, *sorted(place for place in cuts if first < place <= last)]
    for begin, end in pairwise((*begins, last + 1)):
        yield ExcludedTurns(begin, end - 1, find_hidden_rule(begin, hidden_ranges) or OUT_OF_REACH)


def find_exclusion_rule(
    ref: SettledTurnRef,
    visibility: PhaseVisibility,
    hidden_ranges: tuple[ExcludedTurns, ...],
) -> str | None:
    if not visibility.can_show(ref.phase):
        return HIDDEN_PHASE
    if hidden_rule := find_hidden_rule(ref.turn, hidden_ranges):
        return hidden_rule
    if ref.excluded:
        return EXCLUDED
    if not ref.is_usable:
        return ref.status
    return None if list_message_refs(ref) else "nothing was said"


def merge_excluded(out: Iterable[ExcludedTurns]) -> tuple[ExcludedTurns, ...]:
    """Merge adjacent ranges that are excluded for the same reason."""
    runs: list[ExcludedTurns] = []
    for run in sorted(out, key=lambda run: run.first):
        if runs and runs[-1].rule == run.rule and runs[-1].last + 1 == run.first:
            saved = runs[-1].saved + run.saved
            runs[-1] = ExcludedTurns(runs[-1].first, run.last, run.rule, saved)
        else:
            runs.append(run)
    return tuple(runs)
