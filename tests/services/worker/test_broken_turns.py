"""A bug in a turn is visible in the worker's log, without what a provider or a prompt says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.store.memory_log import MemoryLog
from turnlog.services.worker.delivery_handling import REDELIVERY_DELAY, handle_message

SECRET = "sk-secret"


class BrokenDelivery:
    """A delivery whose turn ends in an error whose message repeats a provider's body."""

    subject = "session.t.s.turn.submitted"

    reply = "$JS.ACK"

    def __init__(self, delivered: int) -> None:
        self.metadata = SimpleNamespace(num_delivered=delivered, sequence=SimpleNamespace(stream=1))

    @property
    def data(self) -> bytes:
        """Fail as a bug in the middle of a turn would."""
        raise RecursionError(f"the prompt said {SECRET}") from ValueError(f"so did it: {SECRET}")


class BrokenMessage:
    """The message of such a delivery, which records for how long it was handed back."""

    def __init__(self, delivered: int = 1) -> None:
        self.raw_message = BrokenDelivery(delivered)
        self.delays = list[float]()

    async def nack(self, delay: float) -> None:
        self.delays.append(delay)


def build_answering_connection() -> NatsConnection:
    """Build a connection on which every request is answered."""

    async def request(*_: object, **options: object) -> None:
        del options

    return NatsConnection(cast("Any", SimpleNamespace(request=request)), 1.0)


async def hand_over(message: BrokenMessage) -> None:
    sessions = SimpleNamespace(log=MemoryLog())
    answering = cast("Any", SimpleNamespace(ack_wait=30.0, sessions=sessions))
    await handle_message(cast("Any", message), build_answering_connection(), answering)


@pytest.mark.asyncio
async def test_exception_in_a_turn_is_logged_with_its_frames_and_without_its_message() -> None:
    message = BrokenMessage()
    with capture_logs() as logs:
        await hand_over(message)
    assert message.delays == [REDELIVERY_DELAY]
    (log,) = logs
    assert (log["event"], log["error"]) == ("turn-failed-unexpectedly", "RecursionError")
    assert "def data" not in log["frames"]
    assert "in data" in log["frames"]
    assert SECRET not in str(log)


@pytest.mark.asyncio
async def test_repeatedly_failing_turn_is_redelivered_with_increasing_delays() -> None:
    delays: list[float] = []
    for delivered in (1, 2, 3, 5, 6, 400):
        message = BrokenMessage(delivered)
        await hand_over(message)
        delays += message.delays
    assert delays == [1, 2, 4, 16, 30, 30]
