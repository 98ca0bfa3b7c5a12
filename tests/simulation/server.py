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

from tests.simulation.acks import Acks
from tests.simulation.durable import PULL, Durable
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.stream import Stored, Stream, key_of
from tests.simulation.weather import Weather
from tests.simulation.wire import ACKS, Holding, Packet, Wire
from turnlog.events.ids import (
    BLOBS_STREAM,
    REPUBLISH_PREFIX,
    SESSIONS_STREAM,
    SNAPSHOTS_STREAM,
    TOKENS_STREAM,
)

EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"
BATCH: Final = "Nats-Batch-Id"
NUMBER: Final = "Nats-Batch-Sequence"
COMMIT: Final = "Nats-Batch-Commit"
LAST: Final = "Nats-Last-Sequence"
"""Position of the previous message: of the subject where republished, otherwise of the batch get.
"""
WRONG_LAST, INCOMPLETE, NO_MESSAGE = 10071, 10176, 10037
STREAMS: Final = {
    "session": SESSIONS_STREAM,
    "tokens": TOKENS_STREAM,
    "blob": BLOBS_STREAM,
    "snapshot": SNAPSHOTS_STREAM,
}
LIVELY: Final = frozenset({SESSIONS_STREAM, TOKENS_STREAM})
LONGEST_LAG: Final = 3.0
DANGER: Final = {SESSIONS_STREAM: 1.0, TOKENS_STREAM: 5.0, BLOBS_STREAM: 0.0, SNAPSHOTS_STREAM: 0.0}
"""How dangerous it is to send something there: little time lies between a reply and its record."""


@dataclass(eq=False)
class Server:
    """The streams, the consumer, and all connections."""

    loop: SimulatedLoop
    weather: Weather
    ack_wait: float
    wires: list[Wire] = field(default_factory=list[Wire])
    spite: Callable[[Process], None] = lambda _: None
    """Called with a process that is to be killed now."""
    acks: Acks = field(default_factory=Acks)
    _batches: dict[str, list[Packet]] = field(default_factory=dict[str, list[Packet]])
    _down_until: float = 0.0

    def __post_init__(self) -> None:
        self.streams = {name: Stream(name, self.loop.clock()) for name in STREAMS.values()}
        self.durable = Durable(self, self.ack_wait)

    @property
    def sessions(self) -> Stream:
        return self.streams[SESSIONS_STREAM]

    def restart(self, seconds: float) -> None:
        """Be down for so many seconds, and come back without tokens."""
        self._down_until = self.loop.time() + seconds
        self._batches.clear()
        self.streams[TOKENS_STREAM] = Stream(TOKENS_STREAM, self.loop.clock())
        for wire in self.wires:
            wire.cut(seconds + self.loop.chance.random())

    def watch_acks(self, wire: Wire, subject: str, payload: bytes, by: Holding | None) -> None:
        """Record an acknowledgement and what its worker could know when it was sent."""
        self.acks.note(wire, subject, payload, by)

    def sessions_in(self, message: Msg) -> Iterator[tuple[str, int]]:
        """Iterate the session of a message, if it has one, with its stream sequence."""
        headers = message.headers or {}
        if (subject := headers.get("Nats-Subject", "")).startswith("session."):
            yield key_of(subject), int(headers["Nats-Sequence"])

    def receive(self, packet: Packet) -> None:
        """Handle a packet."""
        if self.loop.time() < self._down_until:
            return
        first, _, name = packet.subject.rpartition(".")
        match first:
            case "$JS.API.STREAM.MSG.GET":
                self._led(packet, self.streams[name])
            case "$JS.API.DIRECT.GET":
                self._direct(packet, self.streams[name])
            case "$JS.API.STREAM.INFO":
                self._info(packet, self.streams[name])
            case _ if packet.subject == PULL:
                self.durable.pull(packet)
            case _ if packet.subject.startswith(ACKS):
                self.durable.told(packet)
            case _:
                self._publish(packet)

    def answer(
        self, packet: Packet, body: Mapping[str, Any] | None = None, *,
        data: bytes = b"", headers: Mapping[str, str] | None = None, reply: str = "",
    ) -> None:  # fmt: skip
        """Send an answer, if one was requested."""
        if packet.reply:
            data = json.dumps(body).encode() if body is not None else data
            client = packet.wire.client
            told = dict(headers) if headers else None
            packet.wire.deliver(Msg(client, packet.reply, reply, data, told))

    def _denied(self, packet: Packet, code: int) -> None:
        self.answer(packet, {"error": {"err_code": code, "description": "no"}})

    def _led(self, packet: Packet, stream: Stream) -> None:
        wanted = json.loads(packet.data)
        end = stream.end()
        found: Stored | None
        match wanted:
            case {"next_by_subj": str() as key, "seq": int() as start}:
                found = next(iter(stream.run(key, start, 1, end)), None)
            case {"last_by_subj": str() as key}:
                found = stream.last(key, end)
            case _:
                found = stream.get(wanted["seq"], end)
        if found is None:
            return self._denied(packet, NO_MESSAGE)
        data = b64encode(found.data).decode()
        at = found.at.isoformat()
        message = {"subject": found.subject, "seq": found.sequence, "time": at, "data": data}
        return self.answer(packet, {"message": message}, headers=_headers(stream, found))

    def _direct(self, packet: Packet, stream: Stream) -> None:
        wanted = json.loads(packet.data)
        end = stream.end()
        if packet.wire.happens(self.weather.lag):
            behind = self.loop.chance.random() * LONGEST_LAG
            end = stream.end(self.loop.clock() - timedelta(seconds=behind))
        if "batch" in wanted:
            before = 0
            for each in stream.run(wanted["next_by_subj"], wanted["seq"], wanted["batch"], end):
                headers = {**_headers(stream, each), LAST: str(before)}
                self.answer(packet, data=each.data, headers=headers)
                before = each.sequence
            return self.answer(packet, headers={"Status": "204"})
        key = wanted.get("last_by_subj")
        got = stream.last(key, end) if key else stream.get(wanted["seq"], end)
        if got is None:
            return self.answer(packet, headers={"Status": "404"})
        return self.answer(packet, data=got.data, headers=_headers(stream, got))

    def _info(self, packet: Packet, stream: Stream) -> None:
        now, made = self.loop.clock().isoformat(), stream.created.isoformat()
        body = {"created": made, "state": {"last_seq": stream.end()}, "ts": now}
        self.answer(packet, body)

    def _publish(self, packet: Packet) -> None:
        stream = self.streams[STREAMS[packet.subject.partition(".")[0]]]
        headers = packet.headers or {}
        batch = [packet]
        if name := headers.get(BATCH):
            batch = self._batches.setdefault(name, [])
            batch.append(packet)
            if COMMIT not in headers:
                return None
            del self._batches[name]
            if len(batch) != int(headers[NUMBER]):
                return self._denied(packet, INCOMPLETE)
        expected = (batch[0].headers or {}).get(EXPECTED)
        found = stream.last(key_of(packet.subject), stream.end())
        if expected is not None and int(expected) != (found.sequence if found else 0):
            return self._denied(packet, WRONG_LAST)
        stored = [self._stored(stream, each) for each in batch]
        # Only the end of a token stream has a reply; tokens are too many to draw a kill for each.
        if packet.reply and packet.wire.happens(self.weather.spite * DANGER[stream.name]):
            self.spite(packet.wire.process)
        return self.answer(
            packet, {"seq": stored[-1].sequence}, headers=_headers(stream, stored[-1])
        )

    def _stored(self, stream: Stream, packet: Packet) -> Stored:
        stored = stream.store(packet.subject, self.loop.clock(), packet.data, packet.holding)
        if stream.name in LIVELY:
            self._republish(stream, stored)
        if stored.subject.endswith((".turn.submitted", ".turn.released")):
            self.durable.offer(stored)
        return stored

    def _republish(self, stream: Stream, stored: Stored) -> None:
        subject = f"{REPUBLISH_PREFIX}.{stored.subject}"
        headers = _headers(stream, stored)
        for wire in self.wires:
            if wire.listens(subject):
                wire.deliver(Msg(wire.client, subject, "", stored.data, headers))

    def everything(self) -> Sequence[Stored]:
        """Return all events of all sessions, as they are stored."""
        return self.sessions.messages


def _headers(stream: Stream, stored: Stored) -> dict[str, str]:
    return {
        "Nats-Stream": stream.name,
        "Nats-Subject": stored.subject,
        "Nats-Sequence": str(stored.sequence),
        LAST: str(stored.before),
        "Nats-Time-Stamp": stored.at.isoformat(),
    }
