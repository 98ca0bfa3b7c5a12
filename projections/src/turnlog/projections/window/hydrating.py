"""Hydration: what tools gave in the turn before, for a plan that need not ask for it again.

Of each result its summary is told, under a name that a step may point at. A step that does is done:
no call is made for it, and what the result was is among those of its turn. Which results may be
told is asked anew for every prompt, so that one of a turn that was excluded or withheld in the
meantime is gone from the turn that was to use it, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from turnlog.projections.session.state import Given, OpenTurn, Said, SessionState
from turnlog.projections.session.turns import status_of
from turnlog.projections.window.material import Material
from turnlog.projections.window.visibility import OUT_OF_SIGHT, sight


@dataclass(frozen=True, slots=True)
class Hydration:
    """What may be told of the turn before."""

    results: tuple[Given, ...] = ()
    why: str | None = None
    """Why there are none, where there would be some."""


def hydration(material: Material, state: SessionState) -> Hydration:
    """Say what may be told now."""
    returns = state.returns
    if returns is None:
        return Hydration()
    turn = status_of(state, returns.turn)
    if turn is None or turn.excluded:
        return Hydration(why="excluded")
    if turn.redacted:
        return Hydration(why="redacted")
    if not sight(material, state).holds(returns.phase):
        return Hydration(why=OUT_OF_SIGHT)
    return Hydration(returns.results) if material.remembers else Hydration(why="memory off")


def in_short(state: SessionState) -> frozenset[Said]:
    """Give where texts stand that are shorter than the results of tools which they tell of."""
    used = state.open.tools if state.open else ()
    before = state.returns.results if state.returns else ()
    now = (use.said for use in used if use.said and use.distilled)
    return frozenset((*now, *(said for given in before for said in given.in_short)))


def named(results: Sequence[Given]) -> Iterator[tuple[str, Given]]:
    """Give each result with the name that a plan points at it by: `r1`."""
    return ((f"r{place}", given) for place, given in enumerate(results, 1))


def given_to(opened: OpenTurn, results: Sequence[Given]) -> Iterator[Said]:
    """Give where the results stand that steps of a turn are done by, in the order of the plan."""
    known = {given.said.sequence: given.said for given in results}
    steps = {step.given: None for step in opened.plan or () if step.given is not None}
    return (known[sequence] for sequence in steps if sequence in known)
