"""The simulated server: it stores by compare-and-set, answers gets, and delivers turns.

It does what `nats-server` was seen to do, as far as the product can tell the difference: an
expectation guards a batch, a direct get may come from a lagging replica, republished messages may
be lost, and the token stream is empty after a restart. Packets take effect at the moment they
arrive.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from nats.aio.msg import Msg

from tests.simulation.fault_profiles import FaultProfile
from tests.simulation.network.sent_acknowledgements import AcknowledgementLog
from tests.simulation.network.simulated_connection import (
    ACK_PREFIX,
    DeliveryRef,
    SentPacket,
    SimulatedConnection,
)
from tests.simulation.network.simulated_consumer import PULL_SUBJECT, SimulatedConsumer
from tests.simulation.network.simulated_stream import (
    SimulatedMessage,
    SimulatedStream,
    get_lookup_key,
)
from tests.simulation.processes.simulated_loop import SimulatedLoop, SimulatedProcess
from turnlog.events.subjects import (
    BLOBS_STREAM,
    REPUBLISH_PREFIX,
    SESSIONS_STREAM,
    SNAPSHOTS_STREAM,
    TOKENS_STREAM,
)
from turnlog.services.worker.turn_delivery import compute_redelivery_wait

EXPECTED_HEADER: Final = "Nats-Expected-Last-Subject-Sequence"

BATCH_HEADER: Final = "Nats-Batch-Id"

NUMBER_HEADER: Final = "Nats-Batch-Sequence"

COMMIT_HEADER: Final = "Nats-Batch-Commit"

LAST_HEADER: Final = "Nats-Last-Sequence"
"""Position of the previous message: of the subject where republished, otherwise of the batch get.
"""

WRONG_LAST, INCOMPLETE, NO_MESSAGE = 10071, 10176, 10037

STREAM_BY_PREFIX: Final = {
    "session": SESSIONS_STREAM,
    "tokens": TOKENS_STREAM,
    "blob": BLOBS_STREAM,
    "snapshot": SNAPSHOTS_STREAM,
}

REPUBLISHED_STREAMS: Final = frozenset({SESSIONS_STREAM, TOKENS_STREAM})

LONGEST_LAG: Final = 3.0

MEDIA_KILL_WEIGHT: Final = 1.0
"""How dangerous blobs are where turns have media, whose chunks are stored one after another."""

KILL_WEIGHTS: Final = {
    SESSIONS_STREAM: 1.0,
    TOKENS_STREAM: 5.0,
    BLOBS_STREAM: 0.0,
    SNAPSHOTS_STREAM: 0.0,
}
"""How dangerous it is to send something there: little time lies between a reply and its record."""


@dataclass(eq=False, kw_only=True)
class SimulatedServer:
    """The streams, the consumer, and all connections."""

    loop: SimulatedLoop
    fault_profile: FaultProfile
    ack_wait: float
    has_media: bool = False
    """Whether turns and results of tools have pictures, recordings and files."""
    connections: list[SimulatedConnection] = field(default_factory=list[SimulatedConnection])
    kill_process: Callable[[SimulatedProcess], None] = lambda _: None
    """Called with a process that is to be killed now."""
    acknowledgements: AcknowledgementLog = field(default_factory=AcknowledgementLog)
    _batches: dict[str, list[SentPacket]] = field(default_factory=dict[str, list[SentPacket]])
    _down_until: float = 0.0

    def __post_init__(self) -> None:
        blob_weight = MEDIA_KILL_WEIGHT if self.has_media else KILL_WEIGHTS[BLOBS_STREAM]
        self._kill_weights = {**KILL_WEIGHTS, BLOBS_STREAM: blob_weight}
        self.streams = {
            name: SimulatedStream(name=name, created=self.loop.read_clock())
            for name in STREAM_BY_PREFIX.values()
        }
        self.consumer = SimulatedConsumer(
            server=self, ack_wait=compute_redelivery_wait(self.ack_wait)
        )

    @property
    def sessions(self) -> SimulatedStream:
        return self.streams[SESSIONS_STREAM]

    def restart_server(self, seconds: float) -> None:
        """Be down for so many seconds, and come back without tokens."""
        self._down_until = self.loop.time() + seconds
        self._batches.clear()
        self.streams[TOKENS_STREAM] = SimulatedStream(
            name=TOKENS_STREAM, created=self.loop.read_clock()
        )
        for wire in self.connections:
            wire.take_down(seconds + self.loop.chance.random())

    def record_acknowledgement(
        self, wire: SimulatedConnection, subject: str, payload: bytes, by: DeliveryRef | None
    ) -> None:
        """Record an acknowledgement and what its worker could know when it was sent."""
        self.acknowledgements.record_acknowledgement(wire, subject, payload, by)

    def iterate_sessions(self, message: Msg) -> Iterator[tuple[str, int]]:
        """Iterate the session of a message, if it has one, with its stream sequence."""
        headers = message.headers or {}
        if (subject := headers.get("Nats-Subject", "")).startswith("session."):
            yield get_lookup_key(subject), int(headers["Nats-Sequence"])

    def handle_packet(self, packet: SentPacket) -> None:
        """Handle a packet."""
        if self.loop.time() < self._down_until:
            return
        first, _, name = packet.subject.rpartition(".")
        match first:
            case "$JS.API.STREAM.MSG.GET":
                self._handle_leader_get(packet, self.streams[name])
            case "$JS.API.DIRECT.GET":
                self._handle_direct_get(packet, self.streams[name])
            case "$JS.API.STREAM.INFO":
                self._handle_stream_info(packet, self.streams[name])
            case _ if packet.subject == PULL_SUBJECT:
                self.consumer.add_pull_request(packet)
            case _ if packet.subject.startswith(ACK_PREFIX):
                self.consumer.handle_acknowledgement(packet)
                self.send_answer(packet)
            case _:
                self._handle_publish(packet)

    def send_answer(
        self, packet: SentPacket, body: Mapping[str, Any] | None = None, *,
        data: bytes = b"", headers: Mapping[str, str] | None = None, reply: str = "",
    ) -> None:  # fmt: skip
        """Send an answer, if one was requested."""
        if packet.reply:
            data = json.dumps(body).encode() if body is not None else data
            client = packet.connection.client
            message_headers = dict(headers) if headers else None
            packet.connection.deliver_message(
                Msg(client, packet.reply, reply, data, message_headers)
            )

    def _send_error(self, packet: SentPacket, code: int) -> None:
        self.send_answer(packet, {"error": {"err_code": code, "description": "no"}})

    def _handle_leader_get(self, packet: SentPacket, stream: SimulatedStream) -> None:
        request = json.loads(packet.data)
        end = stream.find_end()
        found = _find_requested(stream, request, end)
        if found is None:
            return self._send_error(packet, NO_MESSAGE)
        data = b64encode(found.data).decode()
        at = found.at.isoformat()
        message = {"subject": found.subject, "seq": found.sequence, "time": at, "data": data}
        return self.send_answer(packet, {"message": message}, headers=_build_headers(stream, found))

    def _handle_direct_get(self, packet: SentPacket, stream: SimulatedStream) -> None:
        request = json.loads(packet.data)
        end = stream.find_end()
        if packet.connection.draw_fault(self.fault_profile.lag):
            behind = self.loop.chance.random() * LONGEST_LAG
            end = stream.find_end(self.loop.read_clock() - timedelta(seconds=behind))
        if "batch" in request:
            before = 0
            for each in stream.list_messages(
                request["next_by_subj"], request["seq"], request["batch"], end
            ):
                headers = {**_build_headers(stream, each), LAST_HEADER: str(before)}
                self.send_answer(packet, data=each.data, headers=headers)
                before = each.sequence
            return self.send_answer(packet, headers={"Status": "204"})
        got = _find_requested(stream, request, end)
        if got is None:
            return self.send_answer(packet, headers={"Status": "404"})
        return self.send_answer(packet, data=got.data, headers=_build_headers(stream, got))

    def _handle_stream_info(self, packet: SentPacket, stream: SimulatedStream) -> None:
        now, made = self.loop.read_clock().isoformat(), stream.created.isoformat()
        end = stream.find_end()
        state = {"first_seq": min(1, end), "last_seq": end, "messages": end}
        body = {"created": made, "state": state, "ts": now}
        self.send_answer(packet, body)

    def _handle_publish(self, packet: SentPacket) -> None:
        stream = self.streams[STREAM_BY_PREFIX[packet.subject.partition(".")[0]]]
        headers = packet.headers or {}
        batch = [packet]
        if name := headers.get(BATCH_HEADER):
            batch = self._batches.setdefault(name, [])
            batch.append(packet)
            if COMMIT_HEADER not in headers:
                return None
            del self._batches[name]
            if len(batch) != int(headers[NUMBER_HEADER]):
                return self._send_error(packet, INCOMPLETE)
        expected = (batch[0].headers or {}).get(EXPECTED_HEADER)
        found = stream.find_last(get_lookup_key(packet.subject), stream.find_end())
        if expected is not None and int(expected) != (found.sequence if found else 0):
            return self._send_error(packet, WRONG_LAST)
        stored = [self._store_packet(stream, each) for each in batch]
        # Only the end of a token stream has a reply; tokens are too many to draw a kill for each.
        if packet.reply and packet.connection.draw_fault(
            self.fault_profile.spite * self._kill_weights[stream.name]
        ):
            self.kill_process(packet.connection.process)
        return self.send_answer(
            packet, {"seq": stored[-1].sequence}, headers=_build_headers(stream, stored[-1])
        )

    def _store_packet(self, stream: SimulatedStream, packet: SentPacket) -> SimulatedMessage:
        stored = stream.store_message(
            packet.subject, self.loop.read_clock(), packet.data, packet.delivery
        )
        if stream.name in REPUBLISHED_STREAMS:
            self._publish_live(stream, stored)
        if stored.subject.endswith((".turn.submitted", ".turn.released")):
            self.consumer.add_message(stored)
        return stored

    def _publish_live(self, stream: SimulatedStream, stored: SimulatedMessage) -> None:
        subject = f"{REPUBLISH_PREFIX}.{stored.subject}"
        headers = _build_headers(stream, stored)
        for wire in self.connections:
            if wire.has_subscription(subject):
                wire.deliver_message(Msg(wire.client, subject, "", stored.data, headers))

    def list_events(self) -> Sequence[SimulatedMessage]:
        """Return all events of all sessions, as they are stored."""
        return self.sessions.messages


def _find_requested(
    stream: SimulatedStream, request: Mapping[str, Any], end: int
) -> SimulatedMessage | None:
    """Return the one message that a get requests, among those up to `end`."""
    match request:
        case {"next_by_subj": str() as key, "seq": int() as start}:
            return next(iter(stream.list_messages(key, start, 1, end)), None)
        case {"last_by_subj": str() as key}:
            return stream.find_last(key, end)
        case _:
            return stream.get_message(request["seq"], end)


def _build_headers(stream: SimulatedStream, stored: SimulatedMessage) -> dict[str, str]:
    return {
        "Nats-Stream": stream.name,
        "Nats-Subject": stored.subject,
        "Nats-Sequence": str(stored.sequence),
        LAST_HEADER: str(stored.previous),
        "Nats-Time-Stamp": stored.at.isoformat(),
    }
