"""Reads a stream, or a tenant's part of it, in bulk and in order.

This is an ordered consumer of our own. The consumer of nats-py answers flow control before its
reader has read, and silently loses messages once its buffer is full. This one answers when the
reader reaches the flow control message, so a slow reader slows the server down.

The server numbers what it pushes. A missing number, a missed heartbeat, a status or a reconnect
ends one delivery; nothing after a gap is handed on. Reading then starts again at the last event
yielded. If that event is read again it is dropped, and if another event is there, the stream was
rolled back and reading ends with `Corrupt`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Final

from nats import errors
from nats.aio.client import Client
from pydantic import BaseModel, JsonValue

from turnlog.events.errors import Unavailable
from turnlog.events.log.ports import Raw
from turnlog.events.nats.answers import ask
from turnlog.events.nats.connection import Connection
from turnlog.events.nats.frames import Frame, taken

HEARTBEAT: Final = 2
"""Seconds between heartbeats of an idle consumer; one may be missed."""
FORGOTTEN: Final = 30
"""Seconds without a reader after which the server deletes the consumer."""
SECOND: Final = 10**9
"""Durations in server configurations are nanoseconds."""
_STATUS: Final = b"NATS/1.0 "
"""How the headers of a server's status message begin; those of a stored message have no status."""


@dataclass(frozen=True, slots=True)
class Bulk:
    """The messages that had arrived when the batch was taken."""

    raws: list[Raw]
    drained: bool
    """Whether the server had no more messages."""


async def deliver(
    connection: Connection, stream: str, subjects: str, after: int
) -> AsyncGenerator[Bulk]:
    """Yield everything under `subjects` after a stream sequence, then what arrives live.

    Raises `Unavailable` at the first problem; see the module.
    """
    inflow = _Inflow(connection.nc)
    inbox = connection.nc.new_inbox()
    try:
        with connection.each_reconnect(inflow.end):
            async with taken(connection.nc, inbox, inflow.keep):
                wanted = json.dumps(_consumer(stream, subjects, inbox, after)).encode()
                made = await ask(connection, f"$JS.API.CONSUMER.CREATE.{stream}", _Made, wanted)
                yield Bulk([], drained=made.num_pending == 0)
                while True:
                    yield await inflow.bulk()
    except (errors.Error, TimeoutError) as error:
        raise Unavailable("nats", f"delivery of {stream}: {type(error).__name__}") from error


class _Made(BaseModel):
    num_pending: int = 0


def _consumer(stream: str, subjects: str, inbox: str, after: int) -> dict[str, JsonValue]:
    return {
        "stream_name": stream,
        "config": {
            "filter_subject": subjects,
            "deliver_subject": inbox,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": after + 1,
            "ack_policy": "none",
            "max_deliver": 1,
            "flow_control": True,
            "idle_heartbeat": HEARTBEAT * SECOND,
            "inactive_threshold": FORGOTTEN * SECOND,
            "mem_storage": True,
            "num_replicas": 1,
        },
    }


@dataclass
class _Inflow:
    nc: Client
    delivered: int = 0
    waiting: list[Frame] = field(default_factory=list[Frame])
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    ended: bool = False

    def end(self) -> None:
        """Stop the delivery: further messages come over another connection."""
        self.ended = True
        self.arrived.set()

    def keep(self, frame: Frame) -> None:
        self.waiting.append(frame)
        self.arrived.set()

    async def bulk(self) -> Bulk:
        async with asyncio.timeout(HEARTBEAT * 2):
            await self.arrived.wait()
        if self.ended:
            raise Unavailable("nats", "there was a reconnect")
        self.arrived.clear()
        came, self.waiting = self.waiting, []
        raws: list[Raw] = []
        drained = False
        for subject, reply, headers, payload in came:
            if headers.startswith(_STATUS):
                await self._answer(reply.decode(), _read(headers))
            else:
                place, number, pending = _numbers(reply)
                self._expect(number - 1)
                self.delivered = number
                raws.append(Raw(subject.decode(), place, payload))
                drained = pending == 0
        return Bulk(raws, drained)

    async def _answer(self, reply: str, headers: Mapping[str, str]) -> None:
        if headers["Status"] != "100":
            raise Unavailable("nats", f"consumer ended: {headers}")
        if reply:
            await self.nc.publish(reply)
        if stalled := headers.get("Nats-Consumer-Stalled"):
            await self.nc.publish(stalled)
        if (number := headers.get("Nats-Last-Consumer")) is not None:
            self._expect(int(number))

    def _expect(self, number: int) -> None:
        if number != self.delivered:
            raise Unavailable("nats", f"delivery {number} does not follow {self.delivered}")


def _numbers(reply: bytes) -> tuple[int, int, int]:
    """Return stream sequence, delivery number and pending count from the reply subject."""
    fields = reply.split(b".")
    return int(fields[5]), int(fields[6]), int(fields[8])


def _read(headers: bytes) -> dict[str, str]:
    """Parse the headers of a status message: status, description and the rest."""
    told, *lines = headers.decode().strip().splitlines()
    _, status, *meant = told.split(" ", 2)
    named = (line.partition(":") for line in lines)
    return {
        "Status": status,
        "Description": " ".join(meant),
        **{name: value.strip() for name, _, value in named},
    }
