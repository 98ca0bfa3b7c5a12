"""Part provenance: the events that a part of a prompt, and its condition, come from.

The manifest says where a text is stored; provenance adds who put it there and when, and what
removed it. Only events are read: those of the session up to the call, and those of the library.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.envelope import Recorded
from turnlog.events.kinds import name_of
from turnlog.events.manifest import FromBlueprint, FromEvent, Part
from turnlog.events.tool import ToolReturned
from turnlog.projections.audit.grounds import behind, leading, meeting
from turnlog.projections.audit.sides import Side
from turnlog.projections.audit.tombstones import tombstones


@dataclass(frozen=True, slots=True)
class Cause:
    """A reference to an event, as people read it."""

    session: str
    """The event's session; `segments` for an event of the library."""
    sequence: int
    event: str
    """Name of the event: `turn-submitted`."""
    time: str
    """When it was decided, RFC 3339."""
    actor: str
    """On whose behalf it was recorded."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A value that was filled into a text of the blueprint."""

    path: str
    """`cartridge.safety.intensity_ceiling`, `session.phase`."""
    by: tuple[Cause, ...]
    """The events that set the value; empty if the value was empty."""


@dataclass(frozen=True, slots=True)
class Removed:
    """Turns that a run leaves out, or includes with another reply."""

    first: int
    last: int
    rule: str
    """`excluded`, `redacted`, `max_turns`, `drop_oldest_pairs` ..."""
    by: Cause
    """The event that did it; the call's own if the assembly did."""


@dataclass(frozen=True, slots=True)
class PartOrigin:
    """A part with the events it comes from."""

    part: Part
    by: tuple[Cause, ...]
    """The events that contain the text or pinned it."""
    filled: tuple[Filled, ...]
    """The values filled into the text, for a text of the blueprint."""
    because: tuple[Cause, ...]
    """The events that decided the part's condition; for a ladder step, the call's own."""
    removed: tuple[Removed, ...]
    """For a run of history: its turns that were left out or redacted."""
    tool: str | None = None
    """For a tool result: `shop_look, t1 of call 3.2`."""


def cause(recorded: Recorded) -> Cause:
    """Build the reference to an event."""
    envelope = recorded.envelope
    return Cause(
        recorded.session,
        recorded.sequence,
        name_of(envelope.type),
        envelope.time,
        envelope.actor,
    )


def origin(part: Part, side: Side) -> PartOrigin:
    """Return the provenance of one part of a call."""
    of = part.source.of if isinstance(part.source, FromBlueprint) else ()
    stones = tombstones(part, side)
    return PartOrigin(
        part=part,
        by=tuple(map(cause, behind(part, side))),
        filled=tuple(Filled(path, tuple(map(cause, leading(path, side)))) for path in of),
        because=tuple(map(cause, meeting(part, side))) or _cut(part, side),
        removed=tuple(Removed(each.first, each.last, each.rule, cause(each.by)) for each in stones),
        tool=_tool(part, side),
    )


def _tool(part: Part, side: Side) -> str | None:
    source = part.source
    found = side.known.at(source.sequence) if isinstance(source, FromEvent) else None
    match found.event if found else None:
        case ToolReturned(tool=tool, id=id, call=call):
            return f"{tool}, {id} of call {call}"
        case _:
            return None


def _cut(part: Part, side: Side) -> tuple[Cause, ...]:
    """Return the call itself if a step of its ladder shortened a part or left it out."""
    steps = {step.step for step in side.manifest.steps}
    word = (part.rule or "").partition(" ")[0]
    return (cause(side.recorded),) if word in steps else ()
