"""Checks which worker may acknowledge a message, by the acknowledgements sent and what was known.

A delivery owns the attempts that were claimed on its behalf. Once its worker has seen a claim of
another delivery, it must not acknowledge the message in any way, unless that was of another message
and this one was delivered to nobody else. No worker may ack a turn that is not settled on the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tests.faults.checks.settling_events import find_settling_events
from tests.simulation.network.sent_acknowledgements import SentAcknowledgement
from tests.simulation.network.simulated_connection import DeliveryRef
from tests.simulation.network.simulated_stream import SimulatedStream
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import AttemptStarted
from turnlog.events.model.child_events import ChildEnded, ChildRequested, ChildSettled
from turnlog.events.model.tool_events import ApprovalDecided
from turnlog.events.model.turn_events import TurnReleased, TurnSubmitted


@dataclass(kw_only=True)
class TurnDeliveries:
    """What happened to the message of a turn."""

    name: str
    claims: list[tuple[int, DeliveryRef]] = field(default_factory=list[tuple[int, DeliveryRef]])
    """Stream sequence of each claim, and the delivery on whose behalf it was made."""
    settled_at: datetime | None = None
    settled_by: int = 0
    """Stream sequence of the event that settled it."""
    waited: list[tuple[datetime, int]] = field(default_factory=list[tuple[datetime, int]])
    """From when on it waited for how many children."""
    child_messages: dict[int, datetime] = field(default_factory=dict[int, datetime])
    """When the message of each settled child was stored, by stream sequence."""

    def has_waited(self, place: int, upto: datetime) -> bool:
        """Return whether it waited for children after the message of a settled child was stored."""
        begin = self.child_messages.get(place)
        if begin is None:
            return False
        return any(count for at, count in self.waited if begin <= at <= upto)


def find_wrong_acknowledgements(
    acknowledgements: Sequence[SentAcknowledgement],
    stored: SimulatedStream,
    log: Mapping[str, Sequence[RecordedEvent]],
) -> Iterator[str]:
    """Return the acknowledgements whose sender knew that it must not send them."""
    turns = {
        place: turn for events in log.values() for place, turn in _iterate_turns(events, stored)
    }
    for each in acknowledgements:
        turn = turns.get(each.delivery[0], TurnDeliveries(name="a turn that is no longer there"))
        if each.kind == "ack":
            # The message of a settled child is not needed while others are pending.
            if turn.has_waited(each.delivery[0], each.at):
                continue
            if turn.settled_at is None or turn.settled_at > each.at:
                yield f"{turn.name} was acknowledged before it was settled"
        elif not (turn.settled_by and turn.settled_by <= each.known_sequence):
            yield from _check_superseded(each, turn)


def _check_superseded(ack: SentAcknowledgement, turn: TurnDeliveries) -> Iterator[str]:
    known = [by for place, by in turn.claims if place <= ack.known_sequence]
    if known and known[-1][0] != ack.delivery[0] and ack.is_newest:
        # A decision about an approval and a settled child have messages of their own. A turn that
        # is claimed on behalf of one leaves its own message with the only one who has it.
        return
    if ack.delivery in known and known[-1] != ack.delivery:
        yield f"{turn.name}: {ack.kind} for delivery {ack.delivery}, knowing of {known[-1]}"


def _iterate_turns(
    events: Sequence[RecordedEvent], stored: SimulatedStream
) -> Iterator[tuple[int, TurnDeliveries]]:
    ends = find_settling_events(events)
    turns: dict[int, TurnDeliveries] = {}
    for recorded in events:
        match recorded.event:
            case (
                TurnSubmitted(turn=number)
                | TurnReleased(turn=number)
                | ChildEnded(turn=number)  # Of a turn that may have been in the queue
            ):
                turn = TurnDeliveries(name=f"turn {number} of {recorded.session}")
                if number in ends:
                    end = events[ends[number][0] - 1].stream_sequence
                    turn.settled_at, turn.settled_by = stored.messages[end - 1].at, end
                turns[number] = turn
                yield recorded.stream_sequence, turn
            case ChildRequested(turn=number):
                waited = turns[number].waited
                count = waited[-1][1] + 1 if waited else 1
                waited.append((stored.messages[recorded.stream_sequence - 1].at, count))
            case ChildSettled(turn=number):
                turn, at = turns[number], stored.messages[recorded.stream_sequence - 1].at
                turn.waited.append((at, turn.waited[-1][1] - 1))
                turn.child_messages[recorded.stream_sequence] = at
                yield recorded.stream_sequence, turn
            case ApprovalDecided(turn=number):  # Delivered as a turn that was released is.
                yield recorded.stream_sequence, turns[number]
            case AttemptStarted(turn=number):
                place = recorded.stream_sequence
                by = stored.messages[place - 1].delivery
                if by:
                    turns[number].claims.append((place, by))
            case _:
                pass
