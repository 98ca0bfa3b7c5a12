"""Origins: the events that a part of a prompt, and the condition it stands under, come from.

The manifest says where a text lies; this says who put it there, and when, and what took it away.
Nothing is read but events: the session's up to the call, and the library's.
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
    """An event, as people refer to it."""

    session: str
    """Whose event it is; `segments` for one of the library."""
    sequence: int
    event: str
    """Its name: `turn-submitted`."""
    time: str
    """When it was decided, RFC 3339."""
    actor: str
    """On whose behalf."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A value that was put into a text of the blueprint."""

    path: str
    """`cartridge.safety.intensity_ceiling`, `session.phase`."""
    by: tuple[Cause, ...]
    """The events that made it what it was; none where it was empty."""


@dataclass(frozen=True, slots=True)
class Removed:
    """Turns that a run does not show, or shows with another reply."""

    first: int
    last: int
    rule: str
    """`excluded`, `redacted`, `max_turns`, `drop_oldest_pairs` ..."""
    by: Cause
    """The event that did it; the call's own where the prompt's making did."""


@dataclass(frozen=True, slots=True)
class PartOrigin:
    """A part with the events it comes from."""

    part: Part
    by: tuple[Cause, ...]
    """Those that hold or pinned its text."""
    filled: tuple[Filled, ...]
    """What was put into it, where the blueprint wrote it."""
    because: tuple[Cause, ...]
    """What met its condition or did not, where an event did; for a step, the call's own."""
    removed: tuple[Removed, ...]
    """Of a run of history: what became of its turns, where something did."""
    tool: str | None = None
    """Of what a tool gave: `shop_look, t1 of call 3.2`."""


def cause(recorded: Recorded) -> Cause:
    """Name an event."""
    envelope = recorded.envelope
    return Cause(
        recorded.session,
        recorded.sequence,
        name_of(envelope.type),
        envelope.time,
        envelope.actor,
    )


def origin(part: Part, side: Side) -> PartOrigin:
    """Trace one part of a call."""
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
    """Name the tool that gave a text, and which asking for it that was."""
    source = part.source
    found = side.known.at(source.sequence) if isinstance(source, FromEvent) else None
    match found.event if found else None:
        case ToolReturned(tool=tool, id=id, call=call):
            return f"{tool}, {id} of call {call}"
        case _:
            return None


def _cut(part: Part, side: Side) -> tuple[Cause, ...]:
    """Name the call itself where a step of its ladder shortened a part or took it out."""
    steps = {step.step for step in side.manifest.steps}
    word = (part.rule or "").partition(" ")[0]
    return (cause(side.recorded),) if word in steps else ()
