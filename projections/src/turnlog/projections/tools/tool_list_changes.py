"""What has changed between the list of tools that a session is pinned to and what is offered now.

Pins are compared, and not the texts that describe them: a server that is left out for a while and
comes back with the same tools has changed nothing.
"""

from __future__ import annotations

from typing import Literal

from turnlog.events.model.tool_events import ChangedTool, ToolListChanged, ToolsSnapshotted

ListOutcome = Literal["pinned", "not_pinned"]
"""Whether a session is pinned to the list that its servers offer now."""


def compare_tool_lists(
    pinned: ToolsSnapshotted, offered: ToolsSnapshotted, outcome: ListOutcome
) -> ToolListChanged | None:
    """Return the event that says what has changed, or None if nothing has."""
    before, after = pinned.tools, offered.tools
    added = {name: pin.digest for name, pin in after.items() if name not in before}
    removed = {name: pin.digest for name, pin in before.items() if name not in after}
    changed = {
        name: ChangedTool(before=before[name].digest, after=pin.digest)
        for name, pin in after.items()
        if name in before and before[name] != pin
    }
    if not added and not removed and not changed:
        return None
    return ToolListChanged(
        profile=pinned.profile,
        digest=offered.digest,
        added=added,
        removed=removed,
        changed=changed,
        outcome=outcome,
    )
