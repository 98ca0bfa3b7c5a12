"""One ordered consumer, from its making to the first thing that goes wrong with it.

The server pushes, numbering what it sends; flow control is answered when the reader has come to
it. A number left out, a missed heartbeat, a status or a reconnect ends the delivery with
`Unavailable`, and what to do then is for the caller: nothing behind a gap is ever handed on.
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
"""Seconds between signs of life of an idle consumer; one may be missed."""
FORGOTTEN: Final = 30
"""Seconds after which the server drops a consumer that nobody listens to."""
SECOND: Final = 10**9
"""The server counts nanoseconds."""
_STATUS: Final = b"NATS/1.0 "
"""How the headers of a word of the server's own begin; those of a message have no status."""


@dataclass(frozen=True, slots=True)
class Bulk:
    """What had arrived when it was asked for."""

    raws: list[Raw]
    drained: bool
    """Whether there was nothing behind it."""


async def deliver(
    connection: Connection, stream: str, subjects: str, after: int
) -> AsyncGenerator[Bulk]:
    """Give all there is under `subjects` behind a stream sequence, and what comes then."""
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
        """Give nothing more: what comes now comes over another connection."""
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
    """Stream sequence, number of the delivery, and what is pending, from the reply subject."""
    fields = reply.split(b".")
    return int(fields[5]), int(fields[6]), int(fields[8])


def _read(headers: bytes) -> dict[str, str]:
    """Read the headers of a word of the server's own: a status, what it means, and the rest."""
    told, *lines = headers.decode().strip().splitlines()
    _, status, *meant = told.split(" ", 2)
    named = (line.partition(":") for line in lines)
    return {
        "Status": status,
        "Description": " ".join(meant),
        **{name: value.strip() for name, _, value in named},
    }
