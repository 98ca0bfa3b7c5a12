"""Protocol invariants that a valid hash chain does not guarantee.

A turn is settled once. A tool request returns once, by the end of its turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.tool_events import ToolCalled, ToolReturned, ToolStarted
from turnlog.events.model.turn_events import TURN_END_TYPES, find_turn_end
from turnlog.projections.audit.record.event_queries import filter_by_type
from turnlog.projections.audit.verify.verification_report import AuditFinding

_TOOL_TYPES: Final = (ToolCalled, ToolStarted, ToolReturned)


def check_settlements(events: Iterable[RecordedEvent]) -> Iterator[AuditFinding]:
    """Yield a finding for each turn that was settled more than once."""
    settled: dict[int, int] = {}
    for recorded in filter_by_type(events, *TURN_END_TYPES):
        end = find_turn_end(recorded.event, settled)
        if end is None:
            continue
        if end.turn in settled:
            detail = f"turn {end.turn} was settled before, by event {settled[end.turn]}"
            yield AuditFinding("integrity", "answers", recorded.sequence, detail)
        settled.setdefault(end.turn, recorded.sequence)


def check_tool_calls(events: Iterable[RecordedEvent]) -> Iterator[AuditFinding]:
    """Yield a finding for each tool request that does not return exactly once within its turn."""
    under_way: dict[tuple[str, str], tuple[int, RecordedEvent]] = {}
    over: set[int] = set()
    for recorded in filter_by_type(events, *TURN_END_TYPES, *_TOOL_TYPES):
        match recorded.event:
            case ToolCalled(turn=turn, call=call, id=id, tool=tool):
                if (call, id) in under_way:
                    yield _build_tool_finding(
                        recorded, f"call {call} asked for {tool} as for a tool under way"
                    )
                under_way[call, id] = turn, recorded
            case ToolStarted(call=call, id=id, tool=tool):
                if (call, id) not in under_way:
                    detail = f"{tool} was begun for call {call}, which did not wait for it"
                    yield _build_tool_finding(recorded, detail)
            case ToolReturned(call=call, id=id, tool=tool):
                if under_way.pop((call, id), None) is None:
                    detail = f"{tool} returned to call {call}, which did not wait for it"
                    yield _build_tool_finding(recorded, detail)
            case event:
                if end := find_turn_end(event):
                    over.add(end.turn)
    for (call, _), (turn, recorded) in under_way.items():
        if turn in over:
            yield _build_tool_finding(recorded, f"call {call} asked for a tool that never returned")


def _build_tool_finding(recorded: RecordedEvent, detail: str) -> AuditFinding:
    return AuditFinding("integrity", "tools", recorded.sequence, detail)
