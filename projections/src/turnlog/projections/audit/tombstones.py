"""Tombstones: the event that took a turn out of a prompt, or put another text in its place.

A turn that was excluded, withheld or given up has an event that says so. One that a limit leaves
out was pushed out by a later turn, and the tombstone is the event by which that one came. One
that has expired, or fell to a ladder, was taken out as the prompt was fixed: by the call itself.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from turnlog.events.envelope import Recorded
from turnlog.events.manifest import FromTurns, Part
from turnlog.projections.audit.fates import Fate
from turnlog.projections.audit.grounds import resolutions
from turnlog.projections.audit.sides import Side
from turnlog.projections.window.history import OUT_OF_REACH
from turnlog.projections.window.skipping import LAST_MESSAGES
from turnlog.projections.window.visibility import OUT_OF_SIGHT

LIMITS: Final = frozenset({"max_turns", "max_chars", LAST_MESSAGES, OUT_OF_REACH})
"""Rules by which later turns push earlier ones out."""


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What became of some turns of a run, one after the other and by the same event."""

    first: int
    last: int
    rule: str
    """`excluded`, `redacted`, `max_turns`, `drop_oldest_pairs` ..."""
    by: Recorded


def tombstones(part: Part, side: Side) -> tuple[Tombstone, ...]:
    """Give what became of the turns of a run: of one left out, why; of one that stands, redactions.

    Each has one event; a part that is no run has none.
    """
    found: list[Tombstone] = []
    for each in _stones(part, side):
        before = found[-1] if found else None
        if before and (before.last + 1, before.rule, before.by) == (each.first, each.rule, each.by):
            found[-1] = Tombstone(before.first, each.last, each.rule, each.by)
        else:
            found.append(each)
    return tuple(found)


def _stones(part: Part, side: Side) -> Iterator[Tombstone]:
    if not isinstance(part.source, FromTurns):
        return
    rule = part.rule or ""
    if rule == OUT_OF_REACH and not part.kept:
        yield Tombstone(part.source.first, part.source.last, rule, side.recorded)
        return
    pushed = pushing(rule, side) if rule in LIMITS else {}
    for turn in range(part.source.first, part.source.last + 1):
        fate = side.fates.get(turn)
        if fate is None:
            continue
        if part.kept and fate.redacted:
            yield Tombstone(turn, turn, "redacted", fate.redacted)
        if not part.kept and (by := pushed.get(turn) or taken_out(fate, rule, side)):
            yield Tombstone(turn, turn, rule, by)


def taken_out(fate: Fate, rule: str, side: Side) -> Recorded | None:
    """Give the event by which a rule left a turn out of a call."""
    match rule:
        case "excluded":
            return fate.marked
        case "failed" | "cancelled":
            return fate.settled
        case "nothing was said":
            return fate.redacted or fate.settled
        case hidden if hidden == OUT_OF_SIGHT:
            return side.entered or side.recorded
        case "entity not allowed":
            return next(resolutions(side), None)
        case off if off.endswith(" off"):
            return side.opened
        case _:
            return side.recorded


def pushing(limit: str, side: Side) -> dict[int, Recorded]:
    """Give the event by which so many later turns stood that each turn over a limit no longer did.

    Turns are gone through from the last one back, so that each knows those behind it.
    """
    over = _over(limit, side)
    found: dict[int, Recorded] = {}
    later: list[Recorded] = []
    room = 0
    for turn in sorted(side.fates, reverse=True):
        fate = side.fates[turn]
        if turn in over and 0 < room <= len(later):
            found[turn] = later[room - 1]
        if fate.usable and fate.since:
            insort(later, fate.since, key=lambda each: each.sequence)
            room += turn not in over
    return found


def _over(limit: str, side: Side) -> frozenset[int]:
    runs = (
        part.source
        for part in side.manifest.parts
        if part.rule == limit and isinstance(part.source, FromTurns)
    )
    return frozenset(turn for run in runs for turn in range(run.first, run.last + 1))
