"""The difference between two calls of one or two sessions: what changed, by which rule, and why.

It is computed from manifests and events alone and contains no prompt text. The calls may be given
in any order; the difference always leads from the first to the second.
"""

from __future__ import annotations

from collections.abc import Mapping

from turnlog.events.call import AttemptEnded
from turnlog.events.envelope import RecordedEvent
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.turn import TurnCancelled, TurnCompleted, TurnFailed
from turnlog.projections.audit.sides import CallSnapshot


def collect_attempt_ends(side: CallSnapshot) -> Mapping[int, AttemptEnded]:
    """Return the latest end of each attempt at a call, by attempt number.

    After the call's turn is settled, only lost attempts are waited for: their worker may still
    report.
    """
    found: dict[int, AttemptEnded] = {}
    over = False
    for recorded in side.log.iterate_from(side.timeline.begun.sequence):
        match recorded.event:
            case AttemptEnded(call=call, attempt=attempt) as ended if call == side.call.call:
                found[attempt] = ended
            case _:
                over = over or _is_settling(recorded, side.call.turn)
        if over and all(ended.outcome != "lost" for ended in found.values()):
            break
    return found


def _is_settling(recorded: RecordedEvent, turn: int) -> bool:
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
