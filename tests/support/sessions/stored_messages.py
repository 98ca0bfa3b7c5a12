"""Messages of the work queue as a worker gets them, without a consumer on a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.services.worker.delivery_handling import handle_message
from turnlog.services.worker.turn_runner import TurnRunner


class StoredMessage:
    """The first delivery of a stored message, which records what is said about it."""

    def __init__(self, subject: str, stored: bytes, stream_sequence: int) -> None:
        metadata = SimpleNamespace(
            num_delivered=1, sequence=SimpleNamespace(stream=stream_sequence)
        )
        self.raw_message = SimpleNamespace(
            metadata=metadata, reply="$JS.ACK", data=stored, subject=subject
        )
        self.said = list[str]()

    async def ack(self) -> None:
        self.said.append("ack")

    async def nack(self, delay: float) -> None:
        self.said.append(f"nak {delay:g}")


def build_answering_connection() -> NatsConnection:
    """Build a connection on which every request is answered."""

    async def request(*_: object, **options: object) -> None:
        del options

    return NatsConnection(nc=cast("Any", SimpleNamespace(request=request)), patience=1.0)


async def deliver_message(message: StoredMessage, answering: TurnRunner) -> None:
    """Let a worker handle a message as it handles those of its consumer."""
    await handle_message(cast("Any", message), build_answering_connection(), answering)
