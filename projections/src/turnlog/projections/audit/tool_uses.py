from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from turnlog.events.envelope import RecordedEvent
from turnlog.events.tool import ToolCalled, ToolReturned


@dataclass(frozen=True, slots=True)
class ToolUseOutcome:
    """A tool request of a call, and its result."""

    called: ToolCalled
    returned: ToolReturned | None = None
    """None until the tool returns."""
    sequence: int = 0
    """Sequence of the event that holds the result, or of the request until then."""


def find_tool_use(events: Iterable[RecordedEvent], call: str, id: str) -> ToolUseOutcome | None:
    """Return the tool request `id` of a call with its result, or None if the call did not make it.
    """
    found: ToolUseOutcome | None = None
    for recorded in events:
        match recorded.event:
            case ToolCalled() as called if (called.call, called.id) == (call, id):
                found = ToolUseOutcome(called, None, recorded.sequence)
            case ToolReturned() as returned if (returned.call, returned.id) == (call, id):
                return ToolUseOutcome(found.called, returned, recorded.sequence) if found else None
            case _:
                pass
    return found
