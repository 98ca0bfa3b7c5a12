"""When turns open and when they are settled, read from their events alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from turnlog.events.envelope import Recorded
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.turn import (
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnQueued,
    TurnReleased,
    TurnSubmitted,
)


def settled(events: Sequence[Recorded]) -> dict[int, list[int]]:
    """Return the sequences of the events that settle each turn; more than one is a fault."""
    ends: dict[int, list[int]] = {}
    for recorded in events:
        match recorded.event:
            case TurnCompleted(turn=turn) | TurnFailed(turn=turn) | TurnCancelled(turn=turn):
                ends.setdefault(turn, []).append(recorded.sequence)
            case ReplyRedacted(turn=turn) if turn not in ends:
                # Redacted while streaming. Otherwise the redaction follows a reply that settled the
                # turn.
                ends[turn] = [recorded.sequence]
            case _:
                pass
    return ends


def opened(events: Sequence[Recorded]) -> dict[int, datetime]:
    """Return when each open turn was opened; a queued turn is not open."""
    found: dict[int, datetime] = {}
    for recorded in events:
        match recorded.event:
            case TurnSubmitted(turn=turn) | TurnReleased(turn=turn):
                found[turn] = datetime.fromisoformat(recorded.envelope.time)
            case _:
                pass
    ends = settled(events)
    return {turn: at for turn, at in found.items() if turn not in ends}


def waiting(events: Sequence[Recorded]) -> set[int]:
    """Return the turns that are not settled, open and queued."""
    asked = {
        each.event.turn for each in events if isinstance(each.event, TurnSubmitted | TurnQueued)
    }
    return asked - settled(events).keys()


def overdue(events: Sequence[Recorded], at: datetime, deadline: timedelta) -> list[int]:
    """Return the turns that are open for longer than the deadline."""
    return [turn for turn, since in opened(events).items() if at - since > deadline]
