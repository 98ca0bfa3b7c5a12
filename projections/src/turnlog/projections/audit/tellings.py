"""Provenance events: the events that a text in a prompt, and its inclusion, follow from.

They are found by the manifest's entry for a part: its source, the values filled into it, and its
condition. Such an event is one of the session or of the library. Tools are disclosed in full after
the event that pinned them, requested their schemas or purged memory, and by name only after the
first answer of a turn that had seen them in full.
"""

from __future__ import annotations

from collections.abc import Iterator

from turnlog.events.envelope import RecordedEvent
from turnlog.events.memory import MemoryPurged
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.tool import SchemasRequested, ToolsSnapshotted
from turnlog.events.turn import TurnCompleted
from turnlog.projections.audit.sides import CallSnapshot
from turnlog.projections.session.telling import find_disclosure_reason
from turnlog.projections.window.telling import FULL_TEXT_RULE, NAMES_RULE


def is_disclosure_rule(rule: str | None) -> bool:
    """Return whether a part is included or left out by the tool disclosure."""
    return rule in {NAMES_RULE, FULL_TEXT_RULE} or (rule or "").startswith("full ")


def find_disclosure_event(side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield the event behind the current tool disclosure, if there is one."""
    asked = next((each for each in reversed(side.log_before_call.events) if _is_disclosing(each, side)), None)
    if asked is None:
        return
    if find_disclosure_reason(side.state):
        yield asked
    else:
        yield from _find_disclosure_end(asked, side)


def _is_disclosing(recorded: RecordedEvent, side: CallSnapshot) -> bool:
    match recorded.event:
        case ToolsSnapshotted(profile=profile) | SchemasRequested(profile=profile):
            return profile == side.state.profile
        case MemoryPurged():
            return True
        case _:
            return False


def _find_disclosure_end(asked: RecordedEvent, side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield the first answer of a turn that had full tool descriptions from its start."""
    for recorded in side.log_before_call.iterate_from(asked.sequence):
        if isinstance(recorded.event, TurnCompleted | ReplyRedacted):
            fate = side.timelines.get(recorded.event.turn)
            begun = fate.opening_events[-1].sequence if fate else 0
            if begun > asked.sequence or isinstance(asked.event, ToolsSnapshotted):
                yield recorded
                return
