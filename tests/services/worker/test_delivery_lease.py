"""A worker acknowledges nothing on a delivery that it held for too long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from faststream.nats.message import NatsMessage

from turnlog.events.codec import EventDraft, encode_batch
from turnlog.events.content import PlainText
from turnlog.events.model.turn_events import TurnSubmitted
from turnlog.events.store.memory_log import MemoryLog
from turnlog.services.platform.telemetry.traces import create_tracing
from turnlog.services.worker.app import handle_message
from turnlog.services.worker.turn_queue import DeliveryDeferred, DeliveryVerdict, TurnDelivery
from turnlog.services.worker.turn_runner import TurnRunner

ACK_WAIT = 30.0

Minding = Callable[[TurnDelivery], Awaitable[None]]


class AdjustableClockLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be advanced, as in a process that was suspended."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


@dataclass
class RecordedMessage:
    """A queue message that records its acknowledgements."""

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
            metadata=metadata, data=written.payload, subject=written.subject
        )

    async def ack(self) -> None:
        self.said.append("ack")

    async def nack(self, delay: float) -> None:
        self.said.append(f"nak {delay:g}")

    async def in_progress(self) -> None:
        self.said.append("progress")


def run_delivery(minding: Callable[[AdjustableClockLoop], Minding]) -> list[str]:
    """Return the acknowledgements of a worker that extends its lease with `minding`."""
    loop, message = AdjustableClockLoop(), RecordedMessage()

    async def answer(delivery: TurnDelivery) -> DeliveryVerdict:
        await minding(loop)(delivery)
        return DeliveryDeferred(1)

    sessions = SimpleNamespace(apply_observed_event=print, log=MemoryLog())
    parts: dict[str, Any] = {"ack_wait": ACK_WAIT, "run_turn": answer, "sessions": sessions}
    worker = cast("TurnRunner", SimpleNamespace(**parts, tracing=create_tracing("test", None)))
    try:
        loop.run_until_complete(handle_message(cast("NatsMessage", message), worker))
    finally:
        loop.close()
    return message.said


def pause_repeatedly(*seconds: float) -> Callable[[AdjustableClockLoop], Minding]:
    """Suspend for each number of seconds and request an extension after each."""

    def on(loop: AdjustableClockLoop) -> Minding:
        async def minding(delivery: TurnDelivery) -> None:
            for each in seconds:
                loop.ahead += each
                await delivery.extend_delivery()

        return minding

    return on


@pytest.mark.promise("P6")
@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ((10.0,), ["progress", "nak 1"]),
        ((20.0, 20.0, 20.0), ["progress", "progress", "progress", "nak 1"]),
        ((40.0,), []),
        ((10.0, 40.0, 1.0), ["progress"]),
    ],
)
def test_expired_delivery_is_not_regained_by_extending_its_lease(
    seconds: tuple[float, ...], expected: list[str]
) -> None:
    assert run_delivery(pause_repeatedly(*seconds)) == expected
