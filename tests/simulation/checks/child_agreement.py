"""Checks that parents and children agree, by the logs of both and by what was acknowledged when.

Each turn of a child is settled once in its parent, soon after it ended, with what the child
replied. The message of a child's turn is acknowledged only after that, since nobody else would tell
the parent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Final, TypeVar

from tests.faults.checks.settling_events import find_settling_events
from tests.simulation.fault_profiles import FAULTS_END
from tests.simulation.network.sent_acknowledgements import SentAcknowledgement
from tests.simulation.network.simulated_stream import SimulatedStream
from tests.simulation.processes.simulated_loop import START_TIME
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.child_events import ChildEnded, ChildRequested, ChildSettled
from turnlog.events.model.session_events import SessionOpened
from turnlog.events.model.turn_events import TurnQueued, TurnReleased, TurnSubmitted
from turnlog.projections.audit.verify.child_checks import (
    check_children,
    check_parent_inputs,
    collect_child_claims,
    collect_child_turns,
    compare_child,
)

NOTICE_SECONDS: Final = 75.0
"""Seconds after the faults in which a parent notices the end of a child's turn: two checks of the
parent's message, and the deliveries that they take.
"""

ChildEvent = TypeVar("ChildEvent", ChildRequested, ChildSettled)

SessionLogs = Mapping[str, Sequence[RecordedEvent]]


def find_child_faults(
    log: SessionLogs, stored: SimulatedStream, acknowledgements: Sequence[SentAcknowledgement]
) -> Iterator[str]:
    """Return what is wrong between parents and children."""
    for parent, events in log.items():
        for finding in chain(check_children(events), check_parent_inputs(events)):
            yield f"{parent}: {finding.detail}"
        claims = collect_child_claims(events)
        for child in dict.fromkeys(each.session for each in claims):
            turns = collect_child_turns(log.get(child, ()))
            yield from (each.detail for each in compare_child(claims, child, turns))
        yield from _find_unsettled(parent, events)
    for child, events in log.items():
        opened = events[0].event if events else None
        if isinstance(opened, SessionOpened) and opened.origin:
            asking = log[opened.origin.session]
            yield from _check_submissions(child, events, asking)
            yield from _find_late_notices(child, events, asking, stored)
            yield from _find_early_acknowledgements(
                child=child,
                events=events,
                parent=asking,
                stored=stored,
                acknowledgements=acknowledgements,
            )


def _find_unsettled(parent: str, events: Sequence[RecordedEvent]) -> Iterator[str]:
    asked = {(e.session, e.child_turn) for e in _list_events(events, ChildRequested)}
    settled = {(e.session, e.child_turn) for e in _list_events(events, ChildSettled)}
    yield from (
        f"{parent}: turn {turn} of {child} was never settled" for child, turn in asked - settled
    )


def _check_submissions(
    child: str, events: Sequence[RecordedEvent], parent: Sequence[RecordedEvent]
) -> Iterator[str]:
    requests = [e for e in _list_events(parent, ChildRequested) if e.session == child]
    submitted = [
        each.event.turn for each in events if isinstance(each.event, TurnSubmitted | TurnQueued)
    ]
    if submitted != list(range(1, len(submitted) + 1)):
        yield f"{child} has the turns {submitted}"
    if len(submitted) > len(requests):
        yield f"{child} has {len(submitted)} turns, of which its parent asked {len(requests)}"


def _find_late_notices(
    child: str,
    events: Sequence[RecordedEvent],
    parent: Sequence[RecordedEvent],
    stored: SimulatedStream,
) -> Iterator[str]:
    clear = START_TIME + timedelta(seconds=FAULTS_END)
    ends = find_settling_events(events)
    for turn, at in _find_settlements(child, parent, stored).items():
        if turn in ends:
            ended = _read_store_time(events[ends[turn][0] - 1], stored)
            if at > max(clear, ended) + timedelta(seconds=NOTICE_SECONDS):
                yield f"the end of turn {turn} of {child} was noticed after {at - ended}"


def _find_early_acknowledgements(
    child: str,
    events: Sequence[RecordedEvent],
    parent: Sequence[RecordedEvent],
    stored: SimulatedStream,
    acknowledgements: Sequence[SentAcknowledgement],
) -> Iterator[str]:
    settled = _find_settlements(child, parent, stored)
    turns = {
        each.stream_sequence: each.event.turn
        for each in events
        if isinstance(each.event, TurnSubmitted | TurnReleased | ChildEnded)
        and each.event.turn in settled
    }
    for ack in acknowledgements:
        turn = turns.get(ack.delivery[0])
        if ack.kind == "ack" and turn is not None and ack.at < settled[turn]:
            yield f"turn {turn} of {child} was acknowledged before its parent knew its end"


def _find_settlements(
    child: str, parent: Sequence[RecordedEvent], stored: SimulatedStream
) -> dict[int, datetime]:
    """Return when each turn of a child was settled in its parent."""
    return {
        each.event.child_turn: _read_store_time(each, stored)
        for each in parent
        if isinstance(each.event, ChildSettled) and each.event.session == child
    }


def _read_store_time(recorded: RecordedEvent, stored: SimulatedStream) -> datetime:
    return stored.messages[recorded.stream_sequence - 1].at


def _list_events(events: Sequence[RecordedEvent], kind: type[ChildEvent]) -> Iterator[ChildEvent]:
    return (each.event for each in events if isinstance(each.event, kind))
