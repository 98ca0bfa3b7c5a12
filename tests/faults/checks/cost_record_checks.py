"""Checks that every finished attempt records a cost: exact, estimated or unknown, never zero."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.faults.checks.settling_events import find_settling_events
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import AttemptEnded, AttemptStarted, find_attempt_end


def find_cost_faults(events: Sequence[RecordedEvent]) -> Iterator[str]:
    """Say of each attempt what is wrong with the record of its cost."""
    over = find_settling_events(events)
    ended: set[tuple[int, int]] = set()
    for recorded in events:
        if end := find_attempt_end(recorded.event):
            ended.add((end.turn, end.attempt))
            yield from _check_attempt_cost(end)
    for recorded in events:
        match recorded.event:
            case AttemptStarted(turn=turn, attempt=attempt) if turn in over:
                if (turn, attempt) not in ended:
                    yield f"attempt {attempt} of turn {turn} has no end"
            case _:
                pass


def _check_attempt_cost(ended: AttemptEnded) -> Iterator[str]:
    name, tokens = f"attempt {ended.attempt} of turn {ended.turn}", ended.usage.input_tokens
    if (ended.usage.known == "unknown") != (ended.cost.micro_dollars is None):
        yield f"{name}: {ended.usage.known} tokens cost {ended.cost.micro_dollars}"
    if ended.cost.micro_dollars == 0 or tokens == 0:
        yield f"{name} cost nothing although a model was asked"
    if ended.outcome == "answered" and ended.usage.known == "unknown":
        yield f"{name} answered, and nobody knows for how much"
