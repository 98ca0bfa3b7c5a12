"""Provenance events: the events that a text in a prompt, and its inclusion, follow from.

They are found by the manifest's entry for a part: its source, the values filled into it, and its
condition. Such an event is one of the session or of the library. Tools are disclosed in full after
the event that pinned them, requested their schemas or purged memory, and by name only after the
first answer of a turn that had seen them in full.
"""

from __future__ import annotations

from collections.abc import Iterator

from turnlog.events.envelope import Recorded
from turnlog.events.memory import MemoryPurged
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.tool import SchemasRequested, ToolsSnapshotted
from turnlog.events.turn import TurnCompleted
from turnlog.projections.audit.sides import Side
from turnlog.projections.session.telling import in_full
from turnlog.projections.window.telling import IN_FULL, NAMES


def tells(rule: str | None) -> bool:
    """Return whether a part is included or left out by the tool disclosure."""
    return rule in {NAMES, IN_FULL} or (rule or "").startswith("full ")


def telling(side: Side) -> Iterator[Recorded]:
    """Yield the event behind the current tool disclosure, if there is one."""
    asked = next((each for each in reversed(side.known.events) if _begins(each, side)), None)
    if asked is None:
        return
    if in_full(side.state):
        yield asked
    else:
        yield from _ended(asked, side)


def _begins(recorded: Recorded, side: Side) -> bool:
    match recorded.event:
        case ToolsSnapshotted(profile=profile) | SchemasRequested(profile=profile):
            return profile == side.state.profile
        case MemoryPurged():
            return True
        case _:
            return False


def _ended(asked: Recorded, side: Side) -> Iterator[Recorded]:
    """Yield the first answer of a turn that had full tool descriptions from its start."""
    for recorded in side.known.onward(asked.sequence):
        if isinstance(recorded.event, TurnCompleted | ReplyRedacted):
            fate = side.fates.get(recorded.event.turn)
            begun = fate.opening[-1].sequence if fate else 0
            if begun > asked.sequence or isinstance(asked.event, ToolsSnapshotted):
                yield recorded
                return
