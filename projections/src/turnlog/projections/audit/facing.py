from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue

from turnlog.events.envelope import Recorded
from turnlog.events.manifest import (
    FromBlob,
    FromBlueprint,
    FromEvent,
    FromResolved,
    FromSegment,
    FromTurns,
    Part,
)
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.turn import TurnCompleted
from turnlog.projections.audit.comparing import Pair
from turnlog.projections.audit.drawing import turned
from turnlog.projections.audit.entries import Entry
from turnlog.projections.audit.fates import Fate
from turnlog.projections.audit.grounds import (
    attributing,
    leading,
    left_out_as_one,
    meeting,
    moving_on,
    pinning,
    resolutions,
    value,
)
from turnlog.projections.audit.reasons import Found, named, told
from turnlog.projections.audit.recaps import behind_recap, is_recap, told_again
from turnlog.projections.audit.shortening import shortening
from turnlog.projections.audit.sides import Side
from turnlog.projections.audit.tellings import telling, tells
from turnlog.projections.audit.tombstones import LIMITS, taken_out, taking_all
from turnlog.projections.session.state import Said
from turnlog.projections.window.layers import NOTHING
from turnlog.projections.window.overflow import Bounds
from turnlog.projections.window.segments import HIDDEN


@dataclass(frozen=True, slots=True)
class Facing:
    """One side of a pair, with its call and the other side."""

    mine: Entry | None
    other: Entry | None
    side: Side
    opposite: Side


@dataclass(frozen=True, slots=True)
class Compared:
    """Two calls, with all pairs of their entries."""

    left: Side
    right: Side
    pairs: Sequence[Pair]
    rooms: dict[tuple[str, Bounds], tuple[Found, ...]] = field(
        default_factory=dict[tuple[str, Bounds], tuple[Found, ...]]
    )
    """Cache: what took the room, by `left` or `right` and the bounds of the limit."""

    def faces(self, pair: Pair) -> tuple[Facing, Facing]:
        """Return both sides of a pair, the later one first."""
        now = Facing(pair.after, pair.before, self.right, self.left)
        return now, Facing(pair.before, pair.after, self.left, self.right)

    def word(self, side: Side) -> str:
        """Return `left` or `right`."""
        return "right" if side is self.right else "left"

    def turns(self, side: Side) -> int:
        """Return how many turns a call had within the limits of its history."""
        entries = (pair.after if side is self.right else pair.before for pair in self.pairs)
        return sum(bool(e and e.turn is not None and (e.stands or e.step)) for e in entries)


def news(pair: Pair, compared: Compared) -> list[Found]:
    """Return the events of either side that the other call did not know, with their reasons."""
    return [
        (what, by)
        for face in compared.faces(pair)
        for what, by in _grounds(face)
        if by and not face.opposite.knew(by)
    ]


def _grounds(face: Facing) -> Iterator[Found]:
    known = [each for each in (face.mine, face.other) if each]
    if known[0].turn is not None:
        yield from _turn(known[0].turn, face)
    elif is_recap(known[0]):
        yield from told(behind_recap(face.mine, face.other, face.side))
    elif known[0].part.role == "tools" or (face.other and face.other.part.role == "tools"):
        yield from _offering(face)
    elif any(isinstance(each.part.source, FromSegment) for each in known):
        yield from _segment(face)
    elif face.mine and face.other:
        yield from _layer(face.mine, face.other, face)


def _turn(turn: int, face: Facing) -> Iterator[Found]:
    mine = face.mine
    run = mine.part.source if mine else None
    if mine is None or not isinstance(run, FromTurns):
        return
    if left_out_as_one(mine.part):
        yield from told(_veiled(run, mine.part.rule or "", face.side))
        return
    fate = face.side.fates.get(turn)
    if fate is None or fate.status is None:
        return
    if mine.stands:
        yield from _standing(fate, face)
        if face.other and face.other.stands:
            yield from told(shortening(mine.part, face.other.part, face.side))
    elif decided(mine):
        # The turn counted towards the limit, even if none of it was included.
        yield from told((fate.since,) if fate.since and face.other is None else ())
    else:
        out = taken_out(fate, run, mine.part.rule or "", face.side)
        yield from told((out,) if out else ())


def _veiled(run: FromTurns, rule: str, side: Side) -> Iterator[Recorded]:
    """Yield what left out a whole run, unless a limit did."""
    if rule not in LIMITS:
        yield taking_all(run, rule, side)


def decided(entry: Entry | None) -> bool:
    """Return whether a limit, expiry or a ladder step left an entry out."""
    if entry is None or entry.stands:
        return False
    return entry.step is not None or entry.part.rule in {*LIMITS, "expired"}


def _standing(fate: Fate, face: Facing) -> Iterator[Found]:
    theirs, other = face.opposite.fates.get(fate.turn), face.other
    if other is not None and other.stands and theirs:
        yield from _said_otherwise(fate, theirs)
    elif other is not None and not decided(other):
        yield from told((fate.marked,) if fate.marked else ())
        yield from told(told_again(other, face.opposite, face.side))
        yield from _withheld(fate, theirs)
    elif other is None:
        yield from told((fate.since,) if fate.since else ())
        yield from _withheld(fate, theirs)


def _withheld(fate: Fate, theirs: Fate | None) -> Iterator[Found]:
    if fate.redacted and (theirs is None or theirs.redacted is None):
        yield "redacted", fate.redacted


def _said_otherwise(fate: Fate, theirs: Fate) -> Iterator[Found]:
    """Yield why two turns of the same number differ: a redaction, or different turns."""
    if _digest(fate.text) != _digest(theirs.text):
        yield "said", fate.begun
    if _digest(fate.reply) == _digest(theirs.reply):
        return
    if fate.redacted:
        yield "redacted", fate.redacted
    elif theirs.redacted is None and fate.settled:
        yield "answered", fate.settled


def _digest(said: Said | None) -> str | None:
    return said.digest if said else None


def _offering(face: Facing) -> Iterator[Found]:
    """Yield why a tool is offered: the step of a turn, or the phase and its completed exchanges."""
    entry = face.mine or face.other
    if entry and isinstance(entry.part.source, FromBlob):
        yield from told(moving_on(face.side))
        return
    known, entered = face.side.known, face.side.entered
    if entered is None:
        return
    yield "phase", entered
    theirs = face.opposite.known
    shared = theirs.end if theirs.session == known.session else 0
    for recorded in known.onward(max(entered.sequence, shared) + 1):
        match recorded.event:
            case TurnCompleted(turn=turn) | ReplyRedacted(turn=turn):
                fate = face.side.fates.get(turn)
                if fate and fate.settled == recorded:
                    yield "answered", recorded
            case _:
                pass


def _segment(face: Facing) -> Iterator[Found]:
    mine, other, side = face.mine, face.other, face.side
    segments = [
        each.part.source
        for each in (mine, other)
        if each and isinstance(each.part.source, FromSegment)
    ]
    if mine is None or other is None:
        yield from _given(segments[0], (mine or other), face)
        return
    rules = {each.part.rule for each in (mine, other) if not each.stands}
    if HIDDEN in rules and segments[0].tier == segments[-1].tier:
        yield from told(side.asked.opening)
    elif any((rule or "").startswith("when ") for rule in rules):
        yield from told(meeting(mine.part, side))


def _given(segment: FromSegment, entry: Entry | None, face: Facing) -> Iterator[Found]:
    """Yield why a segment is given to one call only: the selection differs, or the library does."""
    sides = (face.side, face.opposite)
    refs = {entry.part.item if entry else None, segment.ref} - {None}
    asked = [any(mentions(each.brought.inputs, ref) for ref in refs) for each in sides]
    pinned = [any(mentions(each.state.attributes, ref) for ref in refs) for each in sides]
    if asked[0] != asked[1]:
        yield from told(face.side.asked.opening)
    elif pinned[0] != pinned[1]:
        yield "attribute", face.side.opened
    elif found := turned(segment.segment, face.side, face.opposite):
        yield "library", found
    elif face.side.state.attributes != face.opposite.state.attributes:
        yield "attribute", face.side.opened
    elif face.side.brought.inputs != face.opposite.brought.inputs:
        yield from told(face.side.asked.opening)


def mentions(given: JsonValue, ref: str | None) -> bool:
    """Return whether a value contains a reference, at any depth."""
    match given:
        case dict():
            return any(mentions(each, ref) for each in given.values())
        case list():
            return any(mentions(each, ref) for each in given)
        case _:
            return given == ref


def _layer(mine: Entry, other: Entry, face: Facing) -> Iterator[Found]:
    side = face.side
    out = [each for each in (mine, other) if not each.stands]
    if any((each.part.rule or "").startswith("when ") for each in out):
        condition = next(each for each in out if (each.part.rule or "").startswith("when "))
        yield from told(meeting(_as(mine, condition), side))
    elif out and tells(mine.part.rule) and tells(other.part.rule):
        yield from told(telling(side))
    elif mine.texts != other.texts and not (out and out[0].step):
        yield from _text(mine, other, face)


def _as(mine: Entry, condition: Entry) -> Part:
    """Return a part with the condition of the other entry."""
    return mine.part.model_copy(update={"rule": condition.part.rule})


def _text(mine: Entry, other: Entry, face: Facing) -> Iterator[Found]:
    side = face.side
    source = mine.part.source or other.part.source
    match source:
        case FromEvent(field=field) if field.startswith("attributes."):
            name = field.removeprefix("attributes.")
            yield from named("attribute", attributing(name, side))
        case FromEvent(sequence=at) if mine.part.source and at != side.asked.begun.sequence:
            yield from told((*filter(None, [side.known.at(at)]), *moving_on(side)))
        case FromEvent():
            yield from told(side.asked.opening)
        case FromResolved():
            yield from told(resolutions(side))
        case FromBlob():
            yield from told(pinning(side))
        case FromBlueprint(of=of):
            yield from _filling(of, face)
        case _:
            if {mine.part.rule, other.part.rule} - {NOTHING, None}:
                yield from told(side.asked.opening)


def _filling(of: Sequence[str], face: Facing) -> Iterator[Found]:
    differ = [path for path in of if value(path, face.side) != value(path, face.opposite)]
    for path in differ:
        attribute = path.startswith("attributes.")
        for reason, recorded in told(leading(path, face.side)):
            yield ("attribute" if attribute else reason), recorded
    if not differ:
        yield from named("blueprint", face.side.made)
