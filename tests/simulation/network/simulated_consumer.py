"""The consumer that all workers share: which delivery has which turn, and until when.

An acknowledgement belongs to the message and not to its sender: a stalled worker's nak returns the
message that its successor holds. Messages and pull requests are matched in a random order.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from nats.aio.msg import Msg

from tests.simulation.network.simulated_connection import SentPacket
from tests.simulation.network.simulated_stream import SimulatedMessage

if TYPE_CHECKING:
    from tests.simulation.network.simulated_server import SimulatedServer


PULL_SUBJECT: Final = "$PULL"

PULL_SECONDS: Final = 5.0

NAK_PREFIX: Final = b"-NAK"

PROGRESS_PREFIX: Final = b"+WPI"


@dataclass(eq=False, kw_only=True)
class SimulatedConsumer:
    """Turns that are not acknowledged yet."""

    server: SimulatedServer
    ack_wait: float
    ready: list[SimulatedMessage] = field(default_factory=list[SimulatedMessage])
    pending: dict[int, tuple[SimulatedMessage, float]] = field(
        default_factory=dict[int, tuple[SimulatedMessage, float]]
    )
    """By stream sequence: the message, and when it is delivered again."""
    delivered: dict[int, int] = field(default_factory=dict[int, int])
    pull_requests: list[tuple[float, SentPacket]] = field(
        default_factory=list[tuple[float, SentPacket]]
    )

    def add_message(self, stored: SimulatedMessage) -> None:
        """Add a turn to be delivered."""
        self.ready.append(stored)
        self._match_requests()

    def add_pull_request(self, packet: SentPacket) -> None:
        """Add a worker's request for a turn."""
        self.pull_requests.append((self.server.loop.time() + PULL_SECONDS, packet))
        self._match_requests()

    def handle_acknowledgement(self, packet: SentPacket) -> None:
        """Handle an ack, a nak or a progress message."""
        sequence = int(packet.subject.split(".")[5])
        if sequence not in self.pending:
            return
        if packet.data.startswith(NAK_PREFIX):
            nak_options = json.loads(packet.data.removeprefix(NAK_PREFIX) or b"{}")
            self._schedule_redelivery(self.pending[sequence][0], nak_options.get("delay", 0) / 1e9)
        elif packet.data.startswith(PROGRESS_PREFIX):
            self._schedule_redelivery(self.pending[sequence][0], self.ack_wait)
        else:
            del self.pending[sequence]

    def _schedule_redelivery(self, stored: SimulatedMessage, seconds: float) -> None:
        loop = self.server.loop
        until = loop.time() + seconds
        self.pending[stored.sequence] = stored, until
        loop.call_at(until, self._deliver_expired, stored.sequence, context=loop.outside)

    def _deliver_expired(self, sequence: int) -> None:
        if sequence in self.pending and self.pending[sequence][1] <= self.server.loop.time():
            self.add_message(self.pending.pop(sequence)[0])

    def _match_requests(self) -> None:
        loop = self.server.loop
        self.pull_requests = [each for each in self.pull_requests if each[0] > loop.time()]
        while self.ready and self.pull_requests:
            stored = self.ready.pop(loop.chance.randrange(len(self.ready)))
            _, packet = self.pull_requests.pop(loop.chance.randrange(len(self.pull_requests)))
            self._deliver_message(stored, packet)

    def _deliver_message(self, stored: SimulatedMessage, packet: SentPacket) -> None:
        count = self.delivered[stored.sequence] = self.delivered.get(stored.sequence, 0) + 1
        self._schedule_redelivery(stored, self.ack_wait)
        reply = f"$JS.ACK.SESSIONS.workers.{count}.{stored.sequence}.1.0.0"
        shows = {"Nats-Subject": stored.subject, "Nats-Sequence": str(stored.sequence)}
        packet.connection.deliver_message(
            Msg(packet.connection.client, packet.reply, reply, stored.data, shows)
        )
