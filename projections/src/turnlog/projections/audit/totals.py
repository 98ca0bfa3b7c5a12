from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Final

from turnlog.events.call import AttemptEnded, AttemptStarted, ContextAssembled
from turnlog.events.envelope import RecordedEvent
from turnlog.events.turn import TurnQueued, TurnSubmitted
from turnlog.projections.audit.findings import AuditFinding
from turnlog.projections.audit.picking import filter_by_type

_COUNTED_TYPES: Final = (TurnSubmitted, TurnQueued, ContextAssembled, AttemptStarted, AttemptEnded)


@dataclass(frozen=True, slots=True)
class SessionTotals:
    """Turns, calls, tokens and costs of a session up to a sequence, by its own events.

    The read models must show the same figures once they have reached that sequence.
    """

    sequence: int
    turns: int = 0
    calls: int = 0
    """Calls whose prompt was fixed."""
    attempts: int = 0
    tokens: int = 0
    """Tokens of all prompts, as their manifests count them."""
    input_tokens: int = 0
    """Sum over the attempts that report it."""
    output_tokens: int = 0
    micro_dollars: int = 0


def compute_totals(events: Sequence[RecordedEvent]) -> SessionTotals:
    """Compute the totals of a session.

    Of two events about the same attempt or call, the later one counts.
    """
    turns = set[int]()
    calls: dict[str, int] = {}
    attempts: dict[tuple[int, int], AttemptEnded | None] = {}
    for recorded in filter_by_type(events, *_COUNTED_TYPES):
        match recorded.event:
            case TurnSubmitted(turn=turn) | TurnQueued(turn=turn):
                turns.add(turn)
            case ContextAssembled(call=call, manifest=manifest):
                calls[call] = manifest.tokens
            case AttemptStarted(turn=turn, attempt=attempt):
                attempts.setdefault((turn, attempt), None)
            case AttemptEnded(turn=turn, attempt=attempt) as ended:
                attempts[turn, attempt] = ended
            case _:
                pass
    over = [each for each in attempts.values() if each]
    return SessionTotals(
        events[-1].sequence if events else 0,
        len(turns),
        len(calls),
        len(attempts),
        sum(calls.values()),
        sum(each.usage.input_tokens or 0 for each in over),
        sum(each.usage.output_tokens or 0 for each in over),
        sum(each.cost.micro_dollars or 0 for each in over),
    )


def compare_totals(log: SessionTotals, rows: SessionTotals) -> Iterator[AuditFinding]:
    """Yield a finding for each figure in which the read models differ from the log."""
    for each in fields(SessionTotals):
        said, kept = getattr(log, each.name), getattr(rows, each.name)
        if said != kept:
            name = each.name.replace("_", " ")
            detail = f"the read models have {kept} {name}, the log has {said}"
            yield AuditFinding("totals", "totals", log.sequence, detail)
