"""When turns open and when they are settled, read from their events alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.turn_events import TurnQueued, TurnReleased, TurnSubmitted, find_turn_end


def find_settling_events(events: Sequence[RecordedEvent]) -> dict[int, list[int]]:
    """Give the sequences of the events that settle each turn; more than one is one too many."""
    ends: dict[int, list[int]] = {}
    for recorded in events:
        if end := find_turn_end(recorded.event, ends):
            ends.setdefault(end.turn, []).append(recorded.sequence)
    return ends


def find_open_turns(events: Sequence[RecordedEvent]) -> dict[int, datetime]:
    """Give when each turn that is not settled was opened; one that waits is not."""
    found: dict[int, datetime] = {}
    for recorded in events:
        match recorded.event:
            case TurnSubmitted(turn=turn) | TurnReleased(turn=turn):
                found[turn] = datetime.fromisoformat(recorded.envelope.time)
            case _:
                pass
    ends = find_settling_events(events)
    return {turn: at for turn, at in found.items() if turn not in ends}


def find_unsettled_turns(events: Sequence[RecordedEvent]) -> set[int]:
    """Give the turns that have not had their turn yet, those that are open included."""
    submitted = {
        each.event.turn for each in events if isinstance(each.event, TurnSubmitted | TurnQueued)
    }
    return submitted - find_settling_events(events).keys()


def find_overdue_turns(
    events: Sequence[RecordedEvent], at: datetime, deadline: timedelta
) -> list[int]:
    """Give the turns that are open for longer than they may be."""
    return [turn for turn, since in find_open_turns(events).items() if at - since > deadline]
