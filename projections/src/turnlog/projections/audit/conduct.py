"""Conduct: what an unbroken chain may hold all the same, and no session of ours ever does.

A turn settled twice, a tool that never came back to a turn that is over, or came back unasked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from turnlog.events.envelope import Recorded
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.tool import ToolCalled, ToolReturned
from turnlog.events.turn import TurnCancelled, TurnCompleted, TurnFailed
from turnlog.projections.audit.findings import Finding


def answers(events: Iterable[Recorded]) -> Iterator[Finding]:
    """Find turns that were settled more than once."""
    settled: dict[int, int] = {}
    for recorded in events:
        match recorded.event:
            case TurnCompleted(turn=turn) | TurnFailed(turn=turn) | TurnCancelled(turn=turn):
                if turn in settled:
                    detail = f"turn {turn} was settled before, by event {settled[turn]}"
                    yield Finding("integrity", "answers", recorded.sequence, detail)
                settled.setdefault(turn, recorded.sequence)
            case _:
                pass


def tools(events: Iterable[Recorded]) -> Iterator[Finding]:
    """Find tools without a return in turns that are over, and returns that nobody asked for."""
    asked: dict[tuple[str, str], tuple[int, Recorded]] = {}
    over: set[int] = set()
    for recorded in events:
        match recorded.event:
            case ToolCalled(turn=turn, call=call, id=id):
                asked[call, id] = turn, recorded
            case TurnCompleted(turn=turn) | TurnFailed(turn=turn) | TurnCancelled(turn=turn):
                over.add(turn)
            case ReplyRedacted(turn=turn):
                over.add(turn)
            case ToolReturned(call=call, id=id, tool=tool):
                if asked.pop((call, id), None) is None:
                    detail = f"{tool} returned to call {call}, which did not ask for it"
                    yield Finding("integrity", "tools", recorded.sequence, detail)
            case _:
                pass
    for (call, _), (turn, recorded) in asked.items():
        if turn in over:
            detail = f"call {call} asked for a tool that never returned"
            yield Finding("integrity", "tools", recorded.sequence, detail)
