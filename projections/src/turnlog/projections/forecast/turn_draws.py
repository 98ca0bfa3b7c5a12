"""Draws of recorded turns: of the session itself, or of another one of its blueprint.

A session of `n` turns says `n / (n + w)` of its next one, and its blueprint the rest. The weight
`w` is how much the turns of a session differ in size, by how much sessions differ: where sessions
are alike, they say more of each other. Each run draws from a sample of the session's turns taken
with replacement, and from one other session. Of that session the turns about the same number are
drawn, because some grow longer as a session goes on. What is drawn follows from a digest.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, variance
from typing import Final, TypeVar

from turnlog.projections.forecast.input_trends import LengthTrend, SessionSamples
from turnlog.projections.forecast.sample_turns import SampleTurn
from turnlog.projections.session.state import SessionState

USUAL_WEIGHT: Final = 8
"""The weight of the blueprint where too little is known of its sessions."""

MAX_WEIGHT: Final = 16

MIN_SESSIONS: Final = 3
"""Fewest other sessions, of two turns and more, that the weight is measured on."""

NEAR_TURNS: Final = 5
"""From how many turns of another session one is drawn, those nearest by their number."""

ItemT = TypeVar("ItemT")


@dataclass(slots=True)
class DrawSequence:
    """A sequence of draws that follows from a seed."""

    seed: str
    _drawn: int = field(default=0, init=False)

    def draw_number(self) -> int:
        """Return the next number below 2**64."""
        self._drawn += 1
        digest = hashlib.sha256(f"{self.seed}:{self._drawn}".encode()).digest()
        return int.from_bytes(digest[:8])

    def draw_item(self, items: Sequence[ItemT]) -> ItemT:
        """Return one of the items, which are not empty."""
        return items[self.draw_number() % len(items)]


def measure_weight(others: Iterable[SessionSamples]) -> int:
    """Return the variance within sessions by that between them, of the logarithm of their sizes."""
    sizes = [[math.log(1 + turn.characters) for turn in each.turns] for each in others]
    sizes = [each for each in sizes if len(each) > 1]
    if len(sizes) < MIN_SESSIONS:
        return USUAL_WEIGHT
    within = sum(variance(each) * (len(each) - 1) for each in sizes)
    within /= sum(len(each) - 1 for each in sizes)
    by_chance = within * mean([1 / len(each) for each in sizes])
    between = variance([mean(each) for each in sizes]) - by_chance
    return MAX_WEIGHT if between * MAX_WEIGHT <= within else max(1, round(within / between))


@dataclass(frozen=True, slots=True)
class TurnSamples:
    """The recorded turns to draw from."""

    own: SessionSamples
    others: tuple[SessionSamples, ...]
    """Those of each other session of the blueprint."""
    weight: int
    """That of the blueprint, in turns of the session."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not any(each.turns for each in (self.own, *self.others))


@dataclass(frozen=True, slots=True)
class DrawnTurn:
    """A turn that was drawn, and how the inputs of its session grow."""

    sample: SampleTurn
    trends: Mapping[str, LengthTrend]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDraws:
    """What one run draws from."""

    own: SessionSamples
    others: tuple[SessionSamples, ...]
    """The other sessions, first the one that is drawn from where it has a turn that may follow."""
    weight: int
    """How many turns of the session weigh as much as all that is known of its blueprint."""
    numbers: DrawSequence

    def draw_turn(self, state: SessionState) -> DrawnTurn | None:
        """Return a turn that may follow; None if none is on record for its profile and phase."""
        own = _select_matching(self.own.turns, state)
        session, other = self._find_other(state)
        weight = self.weight if other else 0
        if not own and not other:
            return None
        if self.numbers.draw_number() % (len(own) + weight) < len(own):
            return DrawnTurn(self.numbers.draw_item(own), self.own.trends)
        nearest = _select_nearest(other, state.submitted + 1)
        return DrawnTurn(self.numbers.draw_item(nearest), session.trends)

    def _find_other(self, state: SessionState) -> tuple[SessionSamples, Sequence[SampleTurn]]:
        """Return the first other session with turns that may follow, and these turns."""
        for each in self.others:
            if found := _select_matching(each.turns, state):
                return each, found
        return SessionSamples(), ()


def create_run_draws(samples: TurnSamples, seed: str) -> RunDraws:
    """Return the draws of one run."""
    numbers = DrawSequence(seed)
    turns = samples.own.turns
    own = tuple(numbers.draw_item(turns) for _ in turns)
    others = [each for each in samples.others if each.turns]
    first = numbers.draw_number() % len(others) if others else 0
    return RunDraws(
        own=SessionSamples(own, samples.own.trends),
        others=(*others[first:], *others[:first]),
        weight=samples.weight,
        numbers=numbers,
    )


def _select_matching(turns: Sequence[SampleTurn], state: SessionState) -> Sequence[SampleTurn]:
    """Return the turns of the session's profile and phase, those at its place in the phase first.

    A phase that ends after some exchanges is left in the turn that was the last of it.
    """
    found = [each for each in turns if (each.profile, each.phase) == (state.profile, state.phase)]
    if state.phase is None:
        return found
    return [each for each in found if each.exchanges == state.exchanges] or found


def _select_nearest(turns: Sequence[SampleTurn], number: int) -> Sequence[SampleTurn]:
    return sorted(turns, key=lambda each: abs(each.turn - number))[:NEAR_TURNS]
