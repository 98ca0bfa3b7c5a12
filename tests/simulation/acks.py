"""The acknowledgements that workers sent, with the time and what each worker knew by then.

A worker knows that its claim was superseded once the event of a later claim has arrived and the
worker has had a moment to read it. This is checked afterwards, from the log and these records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal

from tests.simulation.stream import key_of

if TYPE_CHECKING:
    from tests.simulation.wire import Holding, Wire

A_MOMENT: Final = 0.05
"""Seconds in which a running process sees what has arrived."""
Word = Literal["ack", "nak", "progress"]


@dataclass(frozen=True, slots=True)
class Said:
    """One acknowledgement of any kind."""

    word: Word
    by: Holding
    at: datetime
    knows: int
    """The stream sequence up to which its worker must have known the session."""


@dataclass
class Acks:
    """All acknowledgements of a simulation."""

    said: list[Said] = field(default_factory=list[Said])

    def note(self, wire: Wire, subject: str, payload: bytes, by: Holding | None) -> None:
        """Record an acknowledgement as it is sent."""
        place = int(subject.split(".")[5])
        session = key_of(wire.server.sessions.messages[place - 1].subject)
        before = wire.process.awake_for - A_MOMENT
        knows = max((seq for when, seq in wire.seen.get(session, ()) if when <= before), default=0)
        held = by or (place, int(subject.split(".")[4]))
        self.said.append(Said(_word(payload), held, wire.loop.clock(), knows))


def _word(payload: bytes) -> Word:
    if payload.startswith(b"-NAK"):
        return "nak"
    return "progress" if payload.startswith(b"+WPI") else "ack"
