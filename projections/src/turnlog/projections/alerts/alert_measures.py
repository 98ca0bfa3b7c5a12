"""What a rule of alerts can measure, and what may be said of each measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

AlertMeasure = Literal[
    "near_budget",
    "cut_calls",
    "prefix_lost_cost",
    "cost",
    "failed_turns",
    "failed_share",
    "p95_ms",
    "unpriced",
    "stopped_sessions",
    "projector_lag",
]
"""The names of the measures."""

ScopeField = Literal["blueprint", "profile", "kind", "model", "attributes"]

DEFAULT_WINDOW: Final = timedelta(hours=1)
"""What is measured back from now unless a rule says otherwise."""

SHORTEST_WINDOW: Final = timedelta(minutes=1)

_LEDGER: Final[tuple[ScopeField, ...]] = ("blueprint", "profile", "kind", "model")
"""What the token ledger tells calls apart by."""

_SESSION: Final[tuple[ScopeField, ...]] = ("blueprint", "attributes")
"""What sessions are told apart by."""

_MONTH: Final = timedelta(days=31)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureTerms:
    """What may be said of a measure."""

    unit: str
    """What its values are counted in."""
    longest_window: timedelta | None = None
    """How far back it can be measured; None for a figure of now."""
    scope: tuple[ScopeField, ...] = ()
    """What it can be narrowed to."""


MEASURES: Final[Mapping[AlertMeasure, MeasureTerms]] = {
    "near_budget": MeasureTerms(unit="sessions", scope=_SESSION),
    "cut_calls": MeasureTerms(unit="calls", longest_window=_MONTH, scope=_LEDGER),
    "prefix_lost_cost": MeasureTerms(unit="dollars", longest_window=_MONTH, scope=_LEDGER),
    "cost": MeasureTerms(unit="dollars", longest_window=_MONTH, scope=_LEDGER),
    "failed_turns": MeasureTerms(unit="turns", longest_window=timedelta(days=1), scope=_SESSION),
    "failed_share": MeasureTerms(
        unit="of the turns", longest_window=timedelta(days=1), scope=_SESSION
    ),
    "p95_ms": MeasureTerms(unit="milliseconds", longest_window=timedelta(hours=1), scope=_LEDGER),
    "unpriced": MeasureTerms(unit="calls", longest_window=_MONTH, scope=_LEDGER),
    "stopped_sessions": MeasureTerms(unit="sessions"),
    "projector_lag": MeasureTerms(unit="events"),
}
"""The terms of each measure.

The ledger has sums, so a month of it costs no more than its hours. Turns and the times of attempts
are read row by row, so their windows are shorter.
"""
