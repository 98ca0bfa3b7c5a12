"""Totals of a session: how much was said, asked and paid, as its own events tell it.

What the read models say must be the same, once they have come to the same event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Final

from turnlog.events.call import AttemptEnded, AttemptStarted, ContextAssembled
from turnlog.events.envelope import Recorded
from turnlog.events.turn import TurnQueued, TurnSubmitted
from turnlog.projections.audit.findings import Finding
from turnlog.projections.audit.picking import of_kinds

_COUNTED: Final = (TurnSubmitted, TurnQueued, ContextAssembled, AttemptStarted, AttemptEnded)


@dataclass(frozen=True, slots=True)
class Totals:
    """What a session comes to at a sequence."""

    sequence: int
    turns: int = 0
    calls: int = 0
    """Whose prompt was fixed."""
    attempts: int = 0
    tokens: int = 0
    """Of all prompts, as their manifests count them."""
    input_tokens: int = 0
    """As far as attempts know them."""
    output_tokens: int = 0
    micro_dollars: int = 0


def totals(events: Sequence[Recorded]) -> Totals:
    """Add up a session; of what is said twice of the same attempt or call, the last word counts."""
    turns = set[int]()
    calls: dict[str, int] = {}
    attempts: dict[tuple[int, int], AttemptEnded | None] = {}
    for recorded in of_kinds(events, *_COUNTED):
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
    return Totals(
        events[-1].sequence if events else 0,
        len(turns),
        len(calls),
        len(attempts),
        sum(calls.values()),
        sum(each.usage.input_tokens or 0 for each in over),
        sum(each.usage.output_tokens or 0 for each in over),
        sum(each.cost.micro_dollars or 0 for each in over),
    )


def differing(log: Totals, rows: Totals) -> Iterator[Finding]:
    """Compare what the log says with what the read models say at the same sequence."""
    for each in fields(Totals):
        said, kept = getattr(log, each.name), getattr(rows, each.name)
        if said != kept:
            name = each.name.replace("_", " ")
            detail = f"the read models have {kept} {name}, the log has {said}"
            yield Finding("totals", "totals", log.sequence, detail)
