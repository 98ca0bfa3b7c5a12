"""Tool uses: what a call asked of a tool and what came of it, found among a turn's events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from turnlog.events.envelope import Recorded
from turnlog.events.tool import ToolCalled, ToolReturned


@dataclass(frozen=True, slots=True)
class ToolUsed:
    """A tool that a call asked for."""

    called: ToolCalled
    returned: ToolReturned | None = None
    """None as long as it has not come back."""
    sequence: int = 0
    """Of the event that says what came of it; of the one that asked for it until then."""


def tool_used(events: Iterable[Recorded], call: str, id: str) -> ToolUsed | None:
    """Find what became of what a call asked for; none where it asked for nothing of that name."""
    found: ToolUsed | None = None
    for recorded in events:
        match recorded.event:
            case ToolCalled() as called if (called.call, called.id) == (call, id):
                found = ToolUsed(called, None, recorded.sequence)
            case ToolReturned() as returned if (returned.call, returned.id) == (call, id):
                return ToolUsed(found.called, returned, recorded.sequence) if found else None
            case _:
                pass
    return found
