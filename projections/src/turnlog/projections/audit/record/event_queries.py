"""Queries over recorded events: calls, tool uses, and the events of some types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.tool_events import ApprovalDecided, ToolCalled, ToolReturned
from turnlog.events.registry import KnownEvent
from turnlog.projections.blueprint.sent_names import is_repeatable_name, quote_sent_name


def iterate_calls(
    events: Sequence[RecordedEvent],
) -> Iterator[tuple[RecordedEvent, ContextAssembled]]:
    """Yield each call whose prompt these events fixed, with its event."""
    for recorded in events:
        if isinstance(recorded.event, ContextAssembled):
            yield recorded, recorded.event


def find_call(events: Sequence[RecordedEvent], call: str) -> tuple[RecordedEvent, ContextAssembled]:
    """Return the event that fixed the prompt of a call; refuse a call that was never made."""
    found = [pair for pair in iterate_calls(events) if pair[1].call == call]
    if not found:
        fix = (
            f"write {call}.1 for the first call of turn {call}"
            if call.isdecimal() and is_repeatable_name(call)
            else ""
        )
        detail = f"there is no call {quote_sent_name(call)}"
        raise Refused("unknown-call", detail, field="call", fix=fix)
    return found[-1]


def filter_by_type(
    events: Iterable[RecordedEvent], *event_types: type[KnownEvent]
) -> list[RecordedEvent]:
    """Return the events of these types, in order.

    The exact class is compared: most events match no type, and `isinstance` for each would take
    longer than the work that follows.
    """
    types = frozenset(event_types)
    return [recorded for recorded in events if type(recorded.event) in types]


@dataclass(frozen=True, slots=True)
class ToolUseOutcome:
    """A tool request of a call, and its result."""

    called: ToolCalled
    returned: ToolReturned | None = None
    """None until the tool returns."""
    sequence: int = 0
    """Sequence of the event that holds the result, or of the request until then."""
    edited: str | None = None
    """The arguments that a person wrote instead of the model's, if so."""


def find_tool_use(events: Iterable[RecordedEvent], call: str, id: str) -> ToolUseOutcome | None:
    """Return the tool request `id` of a call with its result, or None if it made none."""
    found: ToolUseOutcome | None = None
    for recorded in events:
        match recorded.event:
            case ToolCalled() as called if (called.call, called.id) == (call, id):
                found = ToolUseOutcome(called, None, recorded.sequence)
            case ApprovalDecided() as decided if (decided.call, decided.id) == (call, id):
                found = found and replace(found, edited=decided.edited)
            case ToolReturned() as returned if (returned.call, returned.id) == (call, id):
                end = recorded.sequence
                return replace(found, returned=returned, sequence=end) if found else None
            case _:
                pass
    return found
