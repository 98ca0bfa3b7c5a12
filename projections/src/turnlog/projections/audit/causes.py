"""Diff causes: why an entry is in one prompt and not, or not the same, in another.

Each side has provenance events; those that the other call did not know are the causes. If a limit
or a ladder decided, the cause is what took the room. If no event lies between two prompts, the
cause is what differs in their definitions. Only manifests and events are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pydantic import JsonValue

from turnlog.events.envelope import Recorded
from turnlog.events.manifest import FromSegment, Source
from turnlog.projections.audit.comparing import Pair
from turnlog.projections.audit.drawing import drawn_by, in_time, turned, version_at
from turnlog.projections.audit.entries import Entry
from turnlog.projections.audit.facing import Compared, Facing, news
from turnlog.projections.audit.grounds import edition
from turnlog.projections.audit.reasons import Because, Found, grouped, named
from turnlog.projections.audit.sides import Side
from turnlog.projections.audit.tombstones import LIMITS, pushing
from turnlog.projections.window.call import provider_of
from turnlog.projections.window.overflow import WHOLE, Bounds, bounds_of


def because(pair: Pair, compared: Compared) -> tuple[Because, ...]:
    """Return why a pair differs."""
    found = [*_forced(pair, compared), *news(pair, compared)]
    return grouped(found or _made_from(pair, compared))


def _forced(pair: Pair, compared: Compared) -> Iterator[Found]:
    """Yield the causes that are a limit, expiry, a ladder step or a segment edit on either side."""
    for face in compared.faces(pair):
        mine = face.mine
        if mine is None:
            continue
        rule = mine.part.rule or ""
        if mine.turn is not None and not mine.stands and rule in LIMITS:
            yield from _pushed(mine.turn, rule, face, compared)
        elif rule == "expired" and face.side.state.memory == face.opposite.state.memory:
            yield "time", face.side.recorded
        elif mine.step and not (face.other and face.other.step):
            yield from _room(bounds_of(mine.step), face, compared)
        elif face.other and mine.stands and face.other.stands:
            yield from _edited(mine.part.source, face.other.part.source, face)


def _edited(mine: Source | None, other: Source | None, face: Facing) -> Iterator[Found]:
    """Yield why a segment's text differs: an edit, or another variant for another session."""
    if not isinstance(mine, FromSegment) or not isinstance(other, FromSegment):
        return
    if mine.version == other.version:
        return
    drawn = _drawn_otherwise(mine, other, face)
    if drawn:
        yield "variant", face.side.known.events[0]
    if found := turned(mine.segment, face.side, face.opposite):
        yield "library", found
    elif not drawn and mine.version > other.version:
        # By their clocks both calls came after the edit; one of them used an older copy of the
        # library.
        yield from named("library", edition(mine, face.side))


def _drawn_otherwise(mine: FromSegment, other: FromSegment, face: Facing) -> bool:
    """Return whether two sessions would have been given different variants at the same time."""
    early, late = in_time(face.side, face.opposite)
    names = [drawn_by(each) for each in (early, late)]
    if names[0] == names[1] or not face.side.edits:
        return names[0] != names[1] and mine.variant != other.variant
    at = early.manifest.at
    versions = [version_at(mine.segment, name, at, early) for name in names]
    return versions[0] != versions[1]


def _pushed(turn: int, limit: str, face: Facing, compared: Compared) -> Iterator[Found]:
    """Yield what put a turn over a limit: later turns, a different limit, or both."""
    if _pins(face.side) == _pins(face.opposite):
        by = pushing(turn, limit, face.side)
        # If the other call knew that event, name all later turns that only this side includes.
        over = _later(turn, face) if by is None or face.opposite.knew(by) else (by,)
        yield from named("limit", over)
        return
    later = tuple(_later(turn, face))
    behind = sum(fate.usable for fate in face.side.fates.after(turn))
    theirs = compared.turns(face.opposite)
    tighter = behind - len(later) >= compared.turns(face.side)
    moved = behind < theirs or not any(p.rule == limit for p in face.opposite.manifest.parts)
    if not (tighter and moved):
        yield from named("limit", later)
    if tighter or moved:
        yield from named("blueprint", _apart((face.side, face.opposite), _made))


def _later(turn: int, face: Facing) -> Iterator[Recorded]:
    """Yield the events by which this side includes later turns that the other does not."""
    for fate in face.side.fates.after(turn):
        theirs = face.opposite.fates.get(fate.turn)
        if not fate.usable or (theirs and theirs.usable):
            continue
        since = fate.since if fate.since and not face.opposite.knew(fate.since) else None
        told = since or (theirs.marked if theirs else None)
        yield from (told,) if told else ()


def _room(of: Bounds, face: Facing, compared: Compared) -> tuple[Found, ...]:
    """Return what made a prompt too long on this side only."""
    # Hundreds of turns may be trimmed for the same reason, so the answer is cached.
    asked = (compared.word(face.side), of)
    if asked not in compared.rooms:
        compared.rooms[asked] = tuple(_taking(of, face, compared))
    return compared.rooms[asked]


def _taking(of: Bounds, face: Facing, compared: Compared) -> Iterator[Found]:
    tight, loose = face.side.manifest.budget, face.opposite.manifest.budget
    less = tight is not None and (loose is None or tight < loose)
    if less if of == WHOLE else _figures(face.side) != _figures(face.opposite):
        yield from _budget(face)
    for pair in compared.pairs:
        part = pair.entry.part
        if of.holds(part.layer, part.component):
            now, then = compared.faces(pair)
            here, there = (now, then) if face.side is compared.right else (then, now)
            if _longer(here.mine, there.mine):
                yield from named("room", (by for _, by in news(pair, compared)))


def _longer(mine: Entry | None, theirs: Entry | None) -> bool:
    """Return whether an entry would be longer on one side if nothing had been cut."""
    if mine is None or not mine.wanted:
        return False
    if theirs is None or not theirs.wanted:
        return True
    return mine.whole is not None and theirs.whole is not None and mine.whole > theirs.whole


def _budget(face: Facing) -> Iterator[Found]:
    """Yield what sets the budget: the kind of call, the blueprint, or the turn's inputs."""
    sides = (face.side, face.opposite)
    if face.side.manifest.kind != face.opposite.manifest.kind:
        yield from named("kind", _apart(sides, _entered))
    elif _pins(face.side) != _pins(face.opposite):
        yield from named("budget", _apart(sides, _made))
    else:
        yield from named("budget", _apart(sides, _begun))


def _figures(side: Side) -> dict[str, JsonValue]:
    """Return the integer inputs of a turn; any of them may be a limit."""
    return {name: value for name, value in side.brought.inputs.items() if type(value) is int}


def _made_from(pair: Pair, compared: Compared) -> Iterator[Found]:
    """Yield what differs in the definition of two calls, if no event between them explains a pair.
    """
    left, right = sides = (compared.left, compared.right)
    if left.state.profile != right.state.profile:
        yield from named("profile", _apart(sides, _running))
    elif left.manifest.kind != right.manifest.kind:
        yield from named("kind", _apart(sides, _entered))
    elif _pins(left) != _pins(right):
        yield from named("blueprint", _apart(sides, _made))
    elif provider_of(left.call.model) != provider_of(right.call.model):
        yield from named("model", [each.recorded for each in sides])
    elif left.state.attributes != right.state.attributes:
        yield from named("attribute", _apart(sides, _made))
    elif left.brought.inputs != right.brought.inputs:
        yield from named("said", _apart(sides, _begun))
    elif isinstance(pair.entry.part.source, FromSegment):
        yield "library", None
    elif left.manifest.assembler != right.manifest.assembler:
        yield from named("assembler", [each.recorded for each in sides])
    else:
        yield "unknown", None


def _apart(sides: tuple[Side, Side], of: Callable[[Side], Sequence[Recorded]]) -> list[Recorded]:
    """Return the events that only one call knew, or all of them if there are none."""
    pairs = [
        (each, other) for side, other in zip(sides, sides[::-1], strict=True) for each in of(side)
    ]
    new = [each for each, other in pairs if not other.knew(each)]
    return new or [each for each, _ in pairs] or [side.recorded for side in sides]


def _made(side: Side) -> Sequence[Recorded]:
    return side.made


def _running(side: Side) -> Sequence[Recorded]:
    return (side.running,)


def _entered(side: Side) -> Sequence[Recorded]:
    return (side.entered,) if side.entered else ()


def _begun(side: Side) -> Sequence[Recorded]:
    return (side.asked.begun,)


def _pins(side: Side) -> tuple[object, ...]:
    state = side.state
    return (state.blueprint.digest, state.cartridge, state.memory)
