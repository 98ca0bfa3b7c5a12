"""Tellings: the event by which a prompt tells of tools in full, or only names them.

They are told in full by what pinned them, asked for them or purged memory, and named from the
answer on that ended the turn in which they were.
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
    """Tell whether a part stands, or is left out, for how tools are told."""
    return rule in {NAMES, IN_FULL} or (rule or "").startswith("full ")


def telling(side: Side) -> Iterator[Recorded]:
    """Give the event by which tools are told as they are."""
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
    """Give the first answer of a turn that was told in full from its beginning on."""
    for recorded in side.known.onward(asked.sequence):
        if isinstance(recorded.event, TurnCompleted | ReplyRedacted):
            fate = side.fates.get(recorded.event.turn)
            begun = fate.opening[-1].sequence if fate else 0
            if begun > asked.sequence or isinstance(asked.event, ToolsSnapshotted):
                yield recorded
                return
