"""The acknowledgements that workers sent, with the time and what each worker knew by then.

A worker knows that its claim was superseded once the event of a later claim has arrived and the
worker has had a moment to read it. This is checked afterwards, from the log and these records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal

from tests.simulation.network.simulated_stream import get_lookup_key

if TYPE_CHECKING:
    from tests.simulation.network.simulated_connection import DeliveryRef, SimulatedConnection


REACTION_SECONDS: Final = 0.05
"""Seconds in which a running process sees what has arrived."""

AcknowledgementKind = Literal["ack", "nak", "progress"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SentAcknowledgement:
    """One acknowledgement of any kind."""

    kind: AcknowledgementKind
    delivery: DeliveryRef
    at: datetime
    known_sequence: int
    """The stream sequence up to which its worker must have known the session."""
    is_newest: bool
    """Whether the message had been delivered to nobody since, so that it acts on this delivery."""


@dataclass
class AcknowledgementLog:
    """All acknowledgements of a simulation."""

    sent: list[SentAcknowledgement] = field(default_factory=list[SentAcknowledgement])

    def record_acknowledgement(
        self, wire: SimulatedConnection, subject: str, payload: bytes, by: DeliveryRef | None
    ) -> None:
        """Record an acknowledgement as it is sent."""
        place = int(subject.split(".")[5])
        session = get_lookup_key(wire.server.sessions.messages[place - 1].subject)
        before = wire.process.awake_for - REACTION_SECONDS
        knows = max((seq for when, seq in wire.seen.get(session, ()) if when <= before), default=0)
        delivery = by or (place, int(subject.split(".")[4]))
        self.sent.append(
            SentAcknowledgement(
                kind=_classify_payload(payload),
                delivery=delivery,
                at=wire.loop.read_clock(),
                known_sequence=knows,
                is_newest=wire.server.consumer.delivered[place] == delivery[1],
            )
        )


def _classify_payload(payload: bytes) -> AcknowledgementKind:
    if payload.startswith(b"-NAK"):
        return "nak"
    return "progress" if payload.startswith(b"+WPI") else "ack"
