from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, assert_never

from pydantic import JsonValue

from turnlog.events.call import CallCompleted
from turnlog.events.content import Digest
from turnlog.events.envelope import Recorded
from turnlog.events.library import (
    SegmentsAdded,
    SegmentsEdited,
)
from turnlog.events.manifest import (
    FromBlob,
    FromBlueprint,
    FromEvent,
    FromResolved,
    FromSegment,
    FromTurns,
    Part,
)
from turnlog.events.prompt import PromptsSnapshotted
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.reference import TurnResolved
from turnlog.events.session import BlueprintMoved, SessionOpened
from turnlog.events.tool import ToolCalled, ToolReturned, ToolsSnapshotted
from turnlog.events.turn import ChoiceRecorded, TurnCompleted
from turnlog.projections.audit.fates import Fate
from turnlog.projections.audit.known import Known
from turnlog.projections.audit.notes import carrying, noting
from turnlog.projections.audit.sides import Side
from turnlog.projections.audit.tellings import telling, tells
from turnlog.projections.session.telling import texts_of
from turnlog.projections.window.call import provider_of
from turnlog.projections.window.history import OUT_OF_REACH, PURGED, SUMMARISED
from turnlog.projections.window.segments import HIDDEN
from turnlog.projections.window.visibility import OUT_OF_SIGHT

AS_ONE: Final = frozenset({OUT_OF_REACH, OUT_OF_SIGHT, PURGED, SUMMARISED})
"""Rules that leave out all turns of a run by one event, however many they are."""
FIRST = "when first_turn"
"""The manifest's rule for a part that is included because the session has no answered turn yet."""


def behind(part: Part, side: Side) -> Iterator[Recorded]:
    """Yield the events that contain a part's text, or pinned it."""
    match part.source:
        case None:
            pass
        case FromTurns() if not part.kept:
            pass
        case FromTurns(first=first, last=last):
            for turn in range(first, last + 1):
                yield from said_in(side.fates.get(turn), side)
        case FromBlob(digest=digest):
            yield from (each for each in side.known.events if _pins(each, part.layer, digest))
        case FromSegment() as segment:
            yield from edition(segment, side)
        case FromEvent(sequence=sequence) | FromResolved(resolution=sequence):
            found = side.known.at(sequence)
            yield from (*asking(found, side.known), found) if found else ()
        case FromBlueprint():
            yield side.opened
        case _ as never:
            assert_never(never)


def asking(returned: Recorded, known: Known) -> Iterator[Recorded]:
    """Yield the event that requested the tool whose result is given."""
    given = returned.event
    if isinstance(given, ToolReturned):
        earlier = known.back(returned.sequence - 1)
        yield from islice((each for each in earlier if _asks_for(given, each)), 1)


def _asks_for(given: ToolReturned, recorded: Recorded) -> bool:
    match recorded.event:
        case ToolCalled(call=call, id=id):
            return (call, id) == (given.call, given.id)
        case _:
            return False


def said_in(fate: Fate | None, side: Side) -> Iterator[Recorded]:
    """Yield the events that contain the messages of a turn."""
    for said in fate.said if fate else ():
        found = side.known.at(said.sequence)
        yield from (found,) if found else ()


def left_out_as_one(part: Part) -> bool:
    """Return whether a run was left out by one event, whatever the state of its turns."""
    return not part.kept and part.rule in AS_ONE


def _pins(recorded: Recorded, layer: str, digest: Digest) -> bool:
    match recorded.event:
        case PromptsSnapshotted(layers=layers):
            return layer in layers and layers[layer].digest == digest
        case ToolsSnapshotted() as pinned:
            return digest in texts_of(pinned)
        case _:
            return False


def pinning(side: Side) -> Iterator[Recorded]:
    """Yield the event that pinned the prompt files for the call's provider."""
    provider = provider_of(side.call.model)
    for recorded in reversed(side.known.events):
        match recorded.event:
            case PromptsSnapshotted(provider=named) if named == provider:
                yield recorded
                return
            case _:
                pass


def attributing(name: str, side: Side) -> Iterator[Recorded]:
    """Yield the event that gave an attribute its value: the opening, or the move that changed it.
    """
    found: Recorded | None = None
    value: JsonValue = None
    for recorded in side.known.events:
        match recorded.event:
            case SessionOpened(attributes=named) | BlueprintMoved(attributes=named):
                if found is None or named.get(name) != value:
                    found, value = recorded, named.get(name)
            case _:
                pass
    yield from (found,) if found else ()


def edition(segment: FromSegment, side: Side) -> Iterator[Recorded]:
    """Yield the library event that introduced this version of a segment."""
    for edit in side.edits:
        match edit.event:
            case SegmentsAdded(segments=added) if segment.version == 1:
                if any(new.id == segment.segment for new in added):
                    yield edit.recorded
            case SegmentsEdited(versions=versions):
                wanted = (segment.segment, segment.version)
                if any((new.id, new.version) == wanted for new in versions):
                    yield edit.recorded
            case _:
                pass


def leading(path: str, side: Side) -> Iterator[Recorded]:
    """Yield the events that set the value at a blueprint path."""
    match path.split("."):
        case ["session", "phase"]:
            yield from (side.entered,) if side.entered else ()
        case ["session", "choices"]:
            said = side.known.events
            yield from (each for each in said if isinstance(each.event, ChoiceRecorded))
        case ["inputs", *_]:
            yield side.asked.begun
        case ["attributes", *name]:
            yield from attributing(".".join(name), side)
        case _:
            yield side.opened


def value(path: str, side: Side) -> JsonValue:
    """Return the value at a blueprint path, as far as it is known without the blueprint."""
    state = side.state
    match path.split(".", 1):
        case ["session", "phase"]:
            return state.phase
        case ["session", "choices"]:
            return [made.label for made in state.choices if made.label]
        case ["attributes", name]:
            return state.attributes.get(name)
        case ["cartridge", _]:
            return state.cartridge
        case ["inputs", name]:
            return side.brought.inputs.get(name)
        case _:
            return None


def resolutions(side: Side) -> Iterator[Recorded]:
    """Yield the resolver's results for the turn of the call."""
    for recorded in side.known.onward(side.asked.begun.sequence):
        match recorded.event:
            case TurnResolved(turn=turn) if turn == side.call.turn:
                yield recorded
            case _:
                pass


def moving_on(side: Side) -> Iterator[Recorded]:
    """Yield the latest answer within the call's turn before the call, if there is one."""
    answered: Recorded | None = None
    for recorded in side.known.onward(side.asked.begun.sequence):
        match recorded.event:
            case CallCompleted(turn=turn) if turn == side.call.turn:
                answered = recorded
            case _:
                pass
    yield from (answered,) if answered else ()


def meeting(part: Part, side: Side) -> Iterator[Recorded]:
    """Yield the events by which a part's condition is met or not met."""
    match (part.rule or "").split():
        case ["when", "reply_redacted"]:
            yield from _noted(side, told=not part.kept)
        case ["when", "first_turn"]:
            yield from _begun(side)
        case ["when", "step_failed"]:
            yield from _failing(side)
        case ["when", "phase", _]:
            yield from (side.entered,) if side.entered else ()
        case ["when", "attribute" | "context", _]:
            yield side.opened
        case [rule] if rule == HIDDEN:
            yield side.asked.begun
        case _ if tells(part.rule):
            yield from telling(side)
        case _:
            pass


def _failing(side: Side) -> Iterator[Recorded]:
    """Yield the failed or refused tools of the turn's latest answer."""
    failed: list[Recorded] = []
    for recorded in side.known.onward(side.asked.begun.sequence):
        match recorded.event:
            case CallCompleted(turn=turn) if turn == side.call.turn:
                failed = []
            case ToolReturned(turn=turn, outcome="failed" | "refused") if turn == side.call.turn:
                failed.append(recorded)
            case _:
                pass
    yield from failed


def _noted(side: Side, *, told: bool) -> Iterator[Recorded]:
    """Yield the redaction that a note is about, or the calls that carried the note already."""
    withheld = next(noting(side.known), None)
    if withheld and not told:
        yield withheld
    elif withheld and not (side.state.note and side.state.note.told is None):
        yield from carrying(withheld, side.known)


def _begun(side: Side) -> Iterator[Recorded]:
    """Yield what decides whether this is the first turn: its own input, or the first answer."""
    if isinstance(side.brought.inputs.get("first_turn"), bool):
        yield side.asked.begun
    elif side.state.completed:
        onward = side.known.onward(side.opened_at)
        yield from islice(filter(_answers, onward), 1)


def _answers(recorded: Recorded) -> bool:
    return isinstance(recorded.event, TurnCompleted | ReplyRedacted)
