"""A bug in a turn is visible in the worker's log, without what a provider or a prompt says."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from tests.events.log_sessions import append_texts
from tests.support.sessions.stored_messages import (
    StoredMessage,
    build_answering_connection,
    deliver_message,
)
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Unavailable, UnreadableEnd
from turnlog.events.store.memory_log import MemoryLog
from turnlog.services.worker import delivery_handling
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


class UnreachableLog:
    """What runs turns, on a log that is out of reach for so many tries."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.stop_requested = asyncio.Event()
        self.ack_wait = 30.0
        self.sessions = SimpleNamespace(log=self)

    async def decode_event(self, *_: object) -> None:
        self.failures -= 1
        if self.failures < 0:
            raise Corrupt("log", "it is reachable, and holds no turn")
        raise Unavailable("log", "no server answers")


@pytest.mark.asyncio
async def test_worker_tries_again_itself_while_the_log_is_out_of_reach(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delivery_handling, "RETRY_DELAY", 0.01)
    message = StoredMessage(BrokenDelivery.subject, b"{}", 1)
    with capture_logs() as logs:
        await deliver_message(message, cast("Any", UnreachableLog(3)))
    assert [log["event"] for log in logs] == ["turn-postponed"] * 3 + ["turn-undecodable"]
    assert message.said == ["ack"]


@pytest.mark.asyncio
async def test_worker_that_is_stopped_hands_back_what_it_could_not_record() -> None:
    answering, message = UnreachableLog(100), StoredMessage(BrokenDelivery.subject, b"{}", 1)
    asyncio.get_running_loop().call_later(0.05, answering.stop_requested.set)
    await deliver_message(message, cast("Any", answering))
    assert message.said == ["nak 1"]


@pytest.mark.asyncio
async def test_turn_of_a_session_that_ends_in_a_foreign_message_is_settled_for_good() -> None:
    end = UnreadableEnd(history="session s", sequence=2, position=3, reason="it is no JSON")

    async def fail_to_record(_delivery: object) -> None:
        raise end

    (submitted,) = await append_texts(MemoryLog(), "t", "s", "Hi")

    async def decode_event(*_: object) -> RecordedEvent:
        return submitted

    def do_nothing(*_: object) -> AbstractContextManager[None]:
        return nullcontext()

    log = SimpleNamespace(decode_event=decode_event)
    sessions = SimpleNamespace(log=log, apply_observed_event=do_nothing)
    tracing = SimpleNamespace(start_turn_span=do_nothing)
    answering = SimpleNamespace(
        ack_wait=30.0, sessions=sessions, tracing=tracing, run_turn=fail_to_record
    )
    message = StoredMessage(BrokenDelivery.subject, b"{}", 1)
    with capture_logs() as logs:
        await deliver_message(message, cast("Any", answering))
    assert [(log["event"], log["error"]) for log in logs] == [("turn-stopped", str(end))]
    assert message.said == ["ack"]
