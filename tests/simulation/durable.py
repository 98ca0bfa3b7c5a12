"""The consumer that all workers share: which delivery has which turn, and until when.

An acknowledgement belongs to the message and not to its sender: a stalled worker's nak returns the
message that its successor holds. Messages and pull requests are matched in a random order.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from nats.aio.msg import Msg

from tests.simulation.stream import Stored
from tests.simulation.wire import Packet

if TYPE_CHECKING:
    from tests.simulation.server import Server

PULL: Final = "$PULL"
PULL_SECONDS: Final = 5.0
NAK: Final = b"-NAK"
PROGRESS: Final = b"+WPI"


@dataclass(eq=False)
class Durable:
    """Turns that are not acknowledged yet."""

    server: Server
    ack_wait: float
    ready: list[Stored] = field(default_factory=list[Stored])
    pending: dict[int, tuple[Stored, float]] = field(
        default_factory=dict[int, tuple[Stored, float]]
    )
    """By stream sequence: the message, and when it is delivered again."""
    delivered: dict[int, int] = field(default_factory=dict[int, int])
    asking: list[tuple[float, Packet]] = field(default_factory=list[tuple[float, Packet]])

    def offer(self, stored: Stored) -> None:
        """Add a turn to be delivered."""
        self.ready.append(stored)
        self._hand_out()

    def pull(self, packet: Packet) -> None:
        """Add a worker's request for a turn."""
        self.asking.append((self.server.loop.time() + PULL_SECONDS, packet))
        self._hand_out()

    def told(self, packet: Packet) -> None:
        """Handle an ack, a nak or a progress message."""
        sequence = int(packet.subject.split(".")[5])
        if sequence not in self.pending:
            return
        if packet.data.startswith(NAK):
            wanted = json.loads(packet.data.removeprefix(NAK) or b"{}")
            self._keep(self.pending[sequence][0], wanted.get("delay", 0) / 1e9)
        elif packet.data.startswith(PROGRESS):
            self._keep(self.pending[sequence][0], self.ack_wait)
        else:
            del self.pending[sequence]

    def _keep(self, stored: Stored, seconds: float) -> None:
        loop = self.server.loop
        until = loop.time() + seconds
        self.pending[stored.sequence] = stored, until
        loop.call_at(until, self._look, stored.sequence, context=loop.outside)

    def _look(self, sequence: int) -> None:
        if sequence in self.pending and self.pending[sequence][1] <= self.server.loop.time():
            self.offer(self.pending.pop(sequence)[0])

    def _hand_out(self) -> None:
        loop = self.server.loop
        self.asking = [each for each in self.asking if each[0] > loop.time()]
        while self.ready and self.asking:
            stored = self.ready.pop(loop.chance.randrange(len(self.ready)))
            _, packet = self.asking.pop(loop.chance.randrange(len(self.asking)))
            self._hand(stored, packet)

    def _hand(self, stored: Stored, packet: Packet) -> None:
        count = self.delivered[stored.sequence] = self.delivered.get(stored.sequence, 0) + 1
        self._keep(stored, self.ack_wait)
        reply = f"$JS.ACK.SESSIONS.workers.{count}.{stored.sequence}.1.0.0"
        shows = {"Nats-Subject": stored.subject, "Nats-Sequence": str(stored.sequence)}
        packet.wire.deliver(Msg(packet.wire.client, packet.reply, reply, stored.data, shows))
