"""Origins: the events that a part of a prompt, and the condition it stands under, come from.

The manifest says where a text lies; this says who put it there, and when. Nothing is read but the
events up to the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from turnlog.events.content import Digest
from turnlog.events.envelope import Recorded
from turnlog.events.kinds import name_of
from turnlog.events.manifest import (
    FromBlob,
    FromBlueprint,
    FromEvent,
    FromResolved,
    FromSegment,
    FromTurns,
    Part,
)
from turnlog.events.phase import PhaseEntered
from turnlog.events.prompt import PromptsSnapshotted
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.turn import ChoiceRecorded


@dataclass(frozen=True, slots=True)
class Cause:
    """An event, as people refer to it."""

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
class PartOrigin:
    """A part with the events it comes from."""

    part: Part
    by: tuple[Cause, ...]
    """Those that hold or pinned its text."""
    filled: tuple[Filled, ...]
    """What was put into it, where the blueprint wrote it."""
    because: Cause | None
    """What met its condition, where an event did."""


def cause(recorded: Recorded) -> Cause:
    """Name an event."""
    envelope = recorded.envelope
    return Cause(recorded.sequence, name_of(envelope.type), envelope.time, envelope.actor)


def origin(part: Part, known: Sequence[Recorded]) -> PartOrigin:
    """Trace one part; `known` are the session's events up to its call."""
    by = tuple(cause(each) for each in _sources(part, known))
    of = part.source.of if isinstance(part.source, FromBlueprint) else ()
    filled = tuple(Filled(path, tuple(map(cause, _filling(path, known)))) for path in of)
    met = _meeting(part, known)
    return PartOrigin(part, by, filled, cause(met) if met else None)


def _sources(part: Part, known: Sequence[Recorded]) -> Iterator[Recorded]:
    match part.source:
        case None | FromTurns() | FromSegment():
            pass
        case FromBlob(digest=digest):
            yield from (each for each in known if _pins(each, part.layer, digest))
        case FromEvent(sequence=sequence) | FromResolved(resolution=sequence):
            yield from (each for each in known if each.sequence == sequence)
        case FromBlueprint():
            yield from known[:1]
        case _ as never:
            assert_never(never)


def _pins(recorded: Recorded, layer: str, digest: Digest) -> bool:
    match recorded.event:
        case PromptsSnapshotted(layers=layers):
            return layer in layers and layers[layer].digest == digest
        case _:
            return False


def _filling(path: str, known: Sequence[Recorded]) -> Sequence[Recorded]:
    """Give the events a path leads to: the opening, the phase's entry, the choices."""
    match path.split("."):
        case ["session", "phase"]:
            return [each for each in known if isinstance(each.event, PhaseEntered)][-1:]
        case ["session", "choices"]:
            return [each for each in known if isinstance(each.event, ChoiceRecorded)]
        case _:
            return known[:1]


def _meeting(part: Part, known: Sequence[Recorded]) -> Recorded | None:
    if not part.kept:
        return None
    match (part.rule or "").split():
        case ["when", "reply_redacted"]:
            met = [each for each in known if isinstance(each.event, ReplyRedacted)]
        case ["when", "phase", _]:
            met = [each for each in known if isinstance(each.event, PhaseEntered)]
        case ["when", "attribute" | "context", _]:
            met = list(known[:1])
        case _:
            met = []
    return met[-1] if met else None
