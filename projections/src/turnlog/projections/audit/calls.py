"""Calls as a record tells them: the events that fixed a prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from turnlog.events.call import ContextAssembled
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Refused


def calls_in(events: Sequence[Recorded]) -> Iterator[tuple[Recorded, ContextAssembled]]:
    """Give the calls whose prompt these events fix."""
    for recorded in events:
        if isinstance(recorded.event, ContextAssembled):
            yield recorded, recorded.event


def call_in(events: Sequence[Recorded], call: str) -> tuple[Recorded, ContextAssembled]:
    """Give what fixed the prompt of a call; refuses a call that was never made."""
    found = [pair for pair in calls_in(events) if pair[1].call == call]
    if not found:
        raise Refused("unknown-call", f"there is no call {call[:80]!r}", field="call")
    return found[-1]
