"""One ordered consumer, from its making to the first thing that goes wrong with it.

The server pushes, numbering what it sends; flow control is answered when the reader has come to
it. A number left out, a missed heartbeat or a status ends the delivery with `Unavailable`, and
what to do then is for the caller: nothing behind a gap is ever handed on.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Final

from nats import errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from pydantic import BaseModel, JsonValue

from turnlog.events.errors import Unavailable
from turnlog.events.log.ports import Raw
from turnlog.events.nats.answers import ask
from turnlog.events.nats.connection import Connection

HEARTBEAT: Final = 2
"""Seconds between signs of life of an idle consumer; one may be missed."""
FORGOTTEN: Final = 30
"""Seconds after which the server drops a consumer that nobody listens to."""
SECOND: Final = 10**9
"""The server counts nanoseconds."""


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
    nc = connection.nc
    try:
        inbox = await nc.subscribe(
            nc.new_inbox(), cb=inflow.keep, pending_msgs_limit=0, pending_bytes_limit=0
        )
        try:
            wanted = json.dumps(_consumer(stream, subjects, inbox.subject, after)).encode()
            made = await ask(connection, f"$JS.API.CONSUMER.CREATE.{stream}", _Made, wanted)
            yield Bulk([], drained=made.num_pending == 0)
            while True:
                yield await inflow.bulk()
        finally:
            await inbox.unsubscribe()
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
    waiting: list[Msg] = field(default_factory=list[Msg])
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def keep(self, message: Msg) -> None:
        self.waiting.append(message)
        self.arrived.set()

    async def bulk(self) -> Bulk:
        async with asyncio.timeout(HEARTBEAT * 2):
            await self.arrived.wait()
        self.arrived.clear()
        taken, self.waiting = self.waiting, []
        raws: list[Raw] = []
        drained = False
        for message in taken:
            if message.headers and "Status" in message.headers:
                await self._answer(message, message.headers)
            else:
                place, number, pending = _numbers(message)
                self._expect(number - 1)
                self.delivered = number
                raws.append(Raw(message.subject, place, message.data))
                drained = pending == 0
        return Bulk(raws, drained)

    async def _answer(self, message: Msg, headers: dict[str, str]) -> None:
        if headers["Status"] != "100":
            raise Unavailable("nats", f"consumer ended: {headers}")
        if message.reply:
            await self.nc.publish(message.reply)
        if stalled := headers.get("Nats-Consumer-Stalled"):
            await self.nc.publish(stalled)
        if (number := headers.get("Nats-Last-Consumer")) is not None:
            self._expect(int(number))

    def _expect(self, number: int) -> None:
        if number != self.delivered:
            raise Unavailable("nats", f"delivery {number} does not follow {self.delivered}")


def _numbers(message: Msg) -> tuple[int, int, int]:
    """Stream sequence, number of the delivery, and what is pending, from the reply subject."""
    fields = message.reply.split(".")
    return int(fields[5]), int(fields[6]), int(fields[8])
