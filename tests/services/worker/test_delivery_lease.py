"""A worker acknowledges nothing on a delivery that it held for too long."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from faststream.nats.message import NatsMessage
from nats import errors
from nats.aio.client import Client

from turnlog.events.codec import EventDraft, encode_batch
from turnlog.events.content import PlainText
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.model.turn_events import TurnSubmitted
from turnlog.events.store.memory_log import MemoryLog
from turnlog.services.platform.telemetry.traces import create_tracing
from turnlog.services.worker.delivery_handling import handle_message
from turnlog.services.worker.turn_delivery import DeliveryDeferred, DeliveryVerdict, TurnDelivery
from turnlog.services.worker.turn_runner import TurnRunner

ACK_WAIT = 30.0
"""A message is then redelivered after ten seconds; its receiver relies on nine."""


class AdjustableClockLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be advanced, as in a process that was suspended."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


@dataclass
class RecordedMessage:
    """A queue message that records its acknowledgements, and the connection that sends them.

    `silence` is how often nobody answers, as while the consumer has no leader.
    """

    loop: AdjustableClockLoop
    silence: int = 0
    said: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        at = datetime(2026, 1, 1, tzinfo=UTC)
        draft = EventDraft(
            event=TurnSubmitted(turn=1, text=PlainText(text="Hello")),
            id="e",
            at=at,
            source="/test",
            actor="ada",
        )
        (written,) = encode_batch("t", "s", None, [draft]).messages
        metadata = SimpleNamespace(sequence=SimpleNamespace(stream=1), num_delivered=1)
        self.raw_message = SimpleNamespace(
            metadata=metadata, data=written.payload, subject=written.subject, reply="$JS.ACK"
        )

    async def ack(self) -> None:
        self.said.append("ack")

    async def nack(self, delay: float) -> None:
        self.said.append(f"nak {delay:g}")

    async def request(self, subject: str, payload: bytes, timeout: float, headers: None) -> None:
        del headers
        assert (subject, payload) == ("$JS.ACK", b"+WPI")
        if self.silence:
            self.silence -= 1
            self.loop.ahead += 2 * timeout
            self.said.append("unanswered")
            raise errors.TimeoutError
        self.said.append("progress")


def run_delivery(*pauses: float, silence: int = 0) -> list[str]:
    """Return the acknowledgements of a worker that is suspended for so many seconds each time."""
    loop = AdjustableClockLoop()
    message = RecordedMessage(loop)

    async def answer(delivery: TurnDelivery) -> DeliveryVerdict:
        del delivery
        for seconds in pauses:
            await yield_to_loop()
            loop.ahead += seconds
        await yield_to_loop()
        message.silence = silence
        return DeliveryDeferred(1)

    sessions = SimpleNamespace(apply_observed_event=print, log=MemoryLog())
    parts: dict[str, Any] = {"ack_wait": ACK_WAIT, "run_turn": answer, "sessions": sessions}
    worker = cast("TurnRunner", SimpleNamespace(**parts, tracing=create_tracing("test", None)))
    try:
        connection = NatsConnection(nc=cast("Client", message), patience=1.0)
        loop.run_until_complete(handle_message(cast("NatsMessage", message), connection, worker))
    finally:
        loop.close()
    return message.said


async def yield_to_loop() -> None:
    """Have the loop run whatever is due, and what follows from it."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.promise("P6")
@pytest.mark.parametrize(
    ("pauses", "expected"),
    [
        ((), ["progress", "nak 1"]),
        ((4.0,), ["progress", "progress", "nak 1"]),
        ((6.0, 6.0, 6.0), ["progress", "progress", "progress", "progress", "nak 1"]),
        ((9.5,), []),
        ((4.0, 9.5, 1.0), ["progress"]),
    ],
)
def test_lease_is_extended_while_a_turn_runs_and_never_regained(
    pauses: tuple[float, ...], expected: list[str]
) -> None:
    assert run_delivery(*pauses) == expected


@pytest.mark.promise("P6")
def test_message_is_handed_back_once_and_only_after_the_leader_has_answered() -> None:
    expected = ["unanswered", "unanswered", "unanswered", "progress", "nak 1"]
    assert run_delivery(silence=3) == expected


@pytest.mark.promise("P6")
def test_message_is_not_handed_back_after_a_leader_was_missing_for_the_whole_lease() -> None:
    assert set(run_delivery(silence=100)) == {"unanswered"}
