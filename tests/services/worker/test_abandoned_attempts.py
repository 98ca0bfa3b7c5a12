"""An attempt that its worker gives up is taken over at once, and what leads nowhere is settled."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from tests.support.sessions.session_harness import (
    TENANT,
    SessionHarness,
    build_delivery,
)
from tests.support.sessions.unreachable_log import UnreachableLog
from turnlog.events.codec import EventDraft, encode_batch
from turnlog.events.content import PlainText
from turnlog.events.errors import Unavailable
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.turn_events import TurnSubmitted
from turnlog.events.tokens import AttemptAbandoned
from turnlog.services.worker.delivery_handling import handle_message
from turnlog.services.worker.turn_delivery import DeliverySettled

PATIENT = 3600.0
"""Seconds of silence that no test waits for."""


async def test_attempt_with_an_unrecordable_outcome_is_taken_over_immediately() -> None:
    log, gate = UnreachableLog(), asyncio.Event()
    house = SessionHarness(log=log)
    await house.open_session()
    house.model.scripts = [["lost ", gate, "words"], ["Hello."]]
    submitted = await house.submit_turn("Hi")
    first, second = house.build_worker("w1"), house.build_worker("w2")
    first.ack_wait = second.ack_wait = PATIENT
    running = asyncio.create_task(first.run_turn(build_delivery(submitted)))
    await house.wait_for_event(ContextAssembled)
    log.is_cut_off = True
    gate.set()
    with pytest.raises(Unavailable):
        await running
    events = [stamped.event for stamped in await house.tokens.read_token_events(TENANT, "s", 1)]
    assert events[-1] == AttemptAbandoned(call="1.1", attempt=1)
    log.is_cut_off = False
    verdict = await second.run_turn(build_delivery(submitted, redelivered=True))
    assert verdict == DeliverySettled()
    # Its whole answer was published, so the model is not called again.
    assert len(house.model.requests) == 1
    assert house.list_event_names()[-1] == "turn-completed"


async def test_abandoned_attempt_is_retried_immediately() -> None:
    def break_down() -> None:
        raise ZeroDivisionError

    house = SessionHarness()
    await house.open_session()
    house.model.scripts = [["lost ", break_down], ["Hello."]]
    submitted = await house.submit_turn("Hi")
    first, second = house.build_worker("w1"), house.build_worker("w2")
    first.ack_wait = second.ack_wait = PATIENT
    with pytest.raises(ZeroDivisionError):
        await first.run_turn(build_delivery(submitted))
    verdict = await second.run_turn(build_delivery(submitted, redelivered=True))
    assert verdict == DeliverySettled()
    assert len(house.model.requests) == 2
    assert house.list_event_names()[-1] == "turn-completed"


async def test_message_for_a_missing_session_is_acknowledged_and_logged_as_an_error() -> None:
    house = SessionHarness()
    draft = EventDraft(
        event=TurnSubmitted(turn=1, text=PlainText(text="junk")),
        id="e",
        at=datetime(2026, 1, 1, tzinfo=UTC),
        source="/test",
        actor="mallory",
    )
    batch = encode_batch(TENANT, "nobody", None, [draft])
    await house.log.append_batch(batch)
    said: list[str] = []

    async def acknowledge() -> None:
        said.append("ack")

    async def hand_back(delay: float) -> None:
        said.append(f"nak {delay:g}")

    metadata = SimpleNamespace(sequence=SimpleNamespace(stream=1), num_delivered=1)
    raw = SimpleNamespace(
        metadata=metadata, data=batch.messages[0].payload, subject=batch.messages[0].subject
    )
    message = SimpleNamespace(raw_message=raw, ack=acknowledge, nack=hand_back)
    with capture_logs() as logs:
        await handle_message(cast("Any", message), cast("Any", None), house.build_worker())
    assert said == ["ack"]
    assert [(log["event"], log["log_level"], log["subject"]) for log in logs] == [
        ("turn-without-session", "error", f"session.{TENANT}.nobody.turn.submitted")
    ]
