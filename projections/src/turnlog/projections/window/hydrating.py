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

from turnlog.projections.session.state import Given, OpenTurn, Said, SessionState
from turnlog.projections.session.turns import status_of
from turnlog.projections.window.material import Material
from turnlog.projections.window.visibility import OUT_OF_SIGHT, sight


@dataclass(frozen=True, slots=True)
class Hydration:
    """The results of the previous turn that may be shown."""

    results: tuple[Given, ...] = ()
    why: str | None = None
    """Why there are none, if some were recorded."""


def hydration(material: Material, state: SessionState) -> Hydration:
    """Return the results of the previous turn that may be shown now."""
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
    """Return the references of texts that condense a longer tool result."""
    used = state.open.tools if state.open else ()
    before = state.returns.results if state.returns else ()
    now = (use.said for use in used if use.said and use.distilled)
    return frozenset((*now, *(said for given in before for said in given.in_short)))


def named(results: Sequence[Given]) -> Iterator[tuple[str, Given]]:
    """Yield each result with the name that a plan refers to it by: `r1`."""
    return ((f"r{place}", given) for place, given in enumerate(results, 1))


def given_to(opened: OpenTurn, results: Sequence[Given]) -> Iterator[Said]:
    """Yield the reused results of a turn's steps, in the order of the plan."""
    known = {given.said.sequence: given.said for given in results}
    steps = {step.given: None for step in opened.plan or () if step.given is not None}
    return (known[sequence] for sequence in steps if sequence in known)
