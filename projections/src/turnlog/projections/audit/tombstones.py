"""Exclusion provenance: the event that took a turn out of a prompt or replaced its text.

An excluded, redacted, failed or cancelled turn has an event that says so. A turn over a history
limit was pushed out by a later turn, so the event is the one by which that turn came. For expiry
and ladder steps the event is the call itself.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from turnlog.events.envelope import Recorded
from turnlog.events.manifest import FromTurns, Part
from turnlog.events.memory import HistorySummarised, MemoryPurged
from turnlog.projections.audit.fates import Fate
from turnlog.projections.audit.grounds import resolutions
from turnlog.projections.audit.sides import Side
from turnlog.projections.window.history import OUT_OF_REACH, PURGED, SUMMARISED
from turnlog.projections.window.skipping import LAST_MESSAGES
from turnlog.projections.window.visibility import OUT_OF_SIGHT

LIMITS: Final = frozenset({"max_turns", "max_chars", LAST_MESSAGES, OUT_OF_REACH})
"""Rules by which later turns push earlier ones out."""
BY_TURN: Final = {*LIMITS, "excluded", "failed", "cancelled", "nothing was said"} - {OUT_OF_REACH}
"""Rules that leave out turns one by one; all others leave out a whole run."""


@dataclass(frozen=True, slots=True)
class Tombstone:
    """Consecutive turns of a run that were left out or redacted by the same event."""

    first: int
    last: int
    rule: str
    """`excluded`, `redacted`, `max_turns`, `drop_oldest_pairs` ..."""
    by: Recorded


def tombstones(part: Part, side: Side) -> tuple[Tombstone, ...]:
    """Return why the turns of a run were left out or, if the run is included, their redactions.

    A part that is no run has none.
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
    if not part.kept and rule not in BY_TURN:
        all_by = taking_all(part.source, rule, side)
        yield Tombstone(part.source.first, part.source.last, rule, all_by)
        return
    for turn in range(part.source.first, part.source.last + 1):
        fate = side.fates.get(turn)
        if fate is None:
            continue
        if part.kept and fate.redacted:
            yield Tombstone(turn, turn, "redacted", fate.redacted)
        pushed = pushing(turn, rule, side) if rule in LIMITS else None
        if not part.kept and (by := pushed or taken_out(fate, part.source, rule, side)):
            yield Tombstone(turn, turn, rule, by)


def taking_all(run: FromTurns, rule: str, side: Side) -> Recorded:
    """Return the event by which all turns of a run were left out; the call's own if there is none.
    """
    match rule:
        case hidden if hidden == OUT_OF_SIGHT:
            return side.entered or side.recorded
        case gone if gone == PURGED:
            said = (each for each in side.known.events if _purged(each, run))
            return next(said, side.recorded)
        case told if told == SUMMARISED:
            sums = (each for each in reversed(side.known.events) if _sums_up(each, run))
            return next(sums, side.recorded)
        case "entity not allowed":
            return next(resolutions(side), side.recorded)
        case off if off.endswith(" off"):
            return side.opened
        case _:
            return side.recorded


def _purged(recorded: Recorded, run: FromTurns) -> bool:
    return isinstance(recorded.event, MemoryPurged) and recorded.event.upto >= run.last


def _sums_up(recorded: Recorded, run: FromTurns) -> bool:
    event = recorded.event
    return isinstance(event, HistorySummarised) and any(
        each.first <= run.first and run.last <= each.last for each in event.turns
    )


def taken_out(fate: Fate, run: FromTurns, rule: str, side: Side) -> Recorded | None:
    """Return the event by which a rule left a turn out of a call."""
    match rule:
        case "excluded":
            return fate.marked
        case "failed" | "cancelled":
            return fate.settled
        case "nothing was said":
            return fate.redacted or fate.settled
        case _:
            return taking_all(run, rule, side)


def pushing(turn: int, limit: str, side: Side) -> Recorded | None:
    """Return the event by which enough later turns were included to push a turn over a limit.

    The search through later turns stops once no further one can have come before that event.
    """
    room = _room(turn, limit, side)
    stood: list[Recorded] = []
    for fate in side.fates.after(turn) if room else ():
        if len(stood) >= room and stood[room - 1].sequence < fate.begun.sequence:
            break
        if fate.usable and fate.since:
            insort(stood, fate.since, key=_sequence)
    return stood[room - 1] if 0 < room <= len(stood) else None


def _room(turn: int, limit: str, side: Side) -> int:
    """Return how many later turns are within the limit and may have been included."""
    over = [
        range(part.source.first, part.source.last + 1)
        for part in side.manifest.parts
        if part.rule == limit and isinstance(part.source, FromTurns)
    ]
    near = _outside(range(turn + 1, side.call.turn), over)
    return sum(fate.usable for each in near if (fate := side.fates.get(each)))


def _outside(turns: range, runs: Sequence[range]) -> Iterator[int]:
    """Yield the turns of a range outside the given runs; a run costs one step whatever its length.
    """
    turn = turns.start
    while turn in turns:
        run = next((each for each in runs if turn in each), None)
        if run is None:
            yield turn
        turn = run.stop if run else turn + 1


def _sequence(recorded: Recorded) -> int:
    return recorded.sequence
