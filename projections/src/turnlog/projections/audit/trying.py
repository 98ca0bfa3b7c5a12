"""Trying: how every attempt at a call ended, by the latest word there is of each.

A worker that went silent is ended by others, and may say more at any time after.
"""

from __future__ import annotations

from collections.abc import Mapping

from turnlog.events.call import AttemptEnded
from turnlog.events.envelope import Recorded
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.turn import TurnCancelled, TurnCompleted, TurnFailed
from turnlog.projections.audit.sides import Side


def tried(side: Side) -> Mapping[int, AttemptEnded]:
    """Give the ends of all attempts at a call; behind its turn only a lost one is waited for."""
    found: dict[int, AttemptEnded] = {}
    over = False
    for recorded in side.record.onward(side.asked.begun.sequence):
        match recorded.event:
            case AttemptEnded(call=call, attempt=attempt) as ended if call == side.call.call:
                found[attempt] = ended
            case _:
                over = over or _settles(recorded, side.call.turn)
        if over and all(ended.outcome != "lost" for ended in found.values()):
            break
    return found


def _settles(recorded: Recorded, turn: int) -> bool:
    match recorded.event:
        case (
            TurnCompleted(turn=settled)
            | TurnFailed(turn=settled)
            | TurnCancelled(turn=settled)
            | ReplyRedacted(turn=settled)
        ):
            return settled == turn
        case _:
            return False
