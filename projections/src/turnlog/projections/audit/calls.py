"""Queries over recorded events: calls, tool uses, and the events of some types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from turnlog.events.call import ContextAssembled
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused


def iterate_calls(events: Sequence[RecordedEvent]) -> Iterator[tuple[RecordedEvent, ContextAssembled]]:
    """Yield each call whose prompt these events fixed, with its event."""
    for recorded in events:
        if isinstance(recorded.event, ContextAssembled):
            yield recorded, recorded.event


def find_call(events: Sequence[RecordedEvent], call: str) -> tuple[RecordedEvent, ContextAssembled]:
    """Return the event that fixed the prompt of a call; refuse a call that was never made."""
    found = [pair for pair in iterate_calls(events) if pair[1].call == call]
    if not found:
        raise Refused("unknown-call", f"there is no call {call[:80]!r}", field="call")
    return found[-1]
