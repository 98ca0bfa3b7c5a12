"""How the inputs of a session's turns grow, such as the state of a game that an application sends.

A turn that is drawn for a later number gets inputs as much longer as they have grown in the session
it is from. Only a text that has grown or shrunk steadily has a trend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from statistics import median
from typing import Final

from pydantic import JsonValue

from turnlog.events.model.turn_events import TurnQueued, TurnSubmitted
from turnlog.projections.forecast.sample_turns import SampleTurn

MIN_TURNS: Final = 4
"""Fewest turns that have a trend."""

MAX_TURNS: Final = 64
"""Latest turns that a trend is measured on."""

STEADY_SHARE: Final = 0.75
"""Share of all pairs of turns in which the later text is longer, or in which it is shorter."""

MAX_FACTOR: Final = 8.0
"""By how much a text is lengthened at most."""


@dataclass(frozen=True, slots=True)
class LengthTrend:
    """A line through the lengths of a text by the number of its turn."""

    start: float
    slope: float
    """Characters that each turn adds."""

    def find_factor(self, before: int, turn: int) -> float:
        """Return how much longer the text of a turn is than that of an earlier one."""
        length, wanted = self.start + self.slope * before, self.start + self.slope * turn
        return min(MAX_FACTOR, wanted / length) if length > 0 and wanted > 0 else 1.0


@dataclass(frozen=True, slots=True)
class SessionSamples:
    """The recorded turns of a session, and how their inputs grow."""

    turns: tuple[SampleTurn, ...] = ()
    trends: Mapping[str, LengthTrend] = field(default_factory=dict[str, LengthTrend])


def build_session_samples(turns: Sequence[SampleTurn]) -> SessionSamples:
    """Return the turns of a session with the trends of their inputs."""
    lengths: dict[str, list[tuple[int, int]]] = {}
    for sample in turns[-MAX_TURNS:]:
        for name, text in _iterate_texts(sample):
            lengths.setdefault(name, []).append((sample.turn, len(text)))
    trends = {name: trend for name, found in lengths.items() if (trend := _fit_trend(found))}
    return SessionSamples(tuple(turns), trends)


def _iterate_texts(sample: SampleTurn) -> list[tuple[str, str]]:
    submitted = (each.event for each in sample.events)
    first = next(each for each in submitted if isinstance(each, TurnSubmitted | TurnQueued))
    return [(name, text) for name, text in first.inputs.items() if isinstance(text, str) and text]


def _fit_trend(lengths: Sequence[tuple[int, int]]) -> LengthTrend | None:
    """Return the line with the median slope; None if the text does not grow steadily."""
    if len(lengths) < MIN_TURNS:
        return None
    slopes = [
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for earlier, later in combinations(lengths, 2)
    ]
    most = max(sum(each > 0 for each in slopes), sum(each < 0 for each in slopes))
    if most < STEADY_SHARE * len(slopes):
        return None
    slope = median(slopes)
    return LengthTrend(median(length - slope * turn for turn, length in lengths), slope)


def stretch_inputs(
    inputs: Mapping[str, JsonValue], trends: Mapping[str, LengthTrend], before: int, turn: int
) -> dict[str, JsonValue]:
    """Return the inputs of a recorded turn as long as those of a later turn of its session."""
    return {
        name: _stretch_text(value, trends[name].find_factor(before, turn))
        if isinstance(value, str) and name in trends
        else value
        for name, value in inputs.items()
    }


def _stretch_text(text: str, factor: float) -> str:
    length = round(len(text) * factor)
    return (text * (length // max(1, len(text)) + 1))[:length]
