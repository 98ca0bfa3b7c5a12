"""What becomes of deliveries is measured, in as many series for a hundred sessions as for one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest_asyncio

from tests.services.gateway.gateway_service import RunningGateway
from tests.services.gateway.webhooks.webhook_stand import (
    TERMS,
    WebhookStand,
    open_webhook_stand,
)
from tests.support.processes.measured_figures import MeasuredFigures
from tests.support.webhooks.webhook_receiver import (
    BAD,
    GOOD,
    Answer,
    Delivery,
    WebhookReceiver,
)
from turnlog.services.webhooks.delivery.delivery_metrics import (
    DELIVERIES_METRIC,
    LAG_METRIC,
    SESSIONS_METRIC,
    DeliveryMetrics,
)

OUTCOME, PLACE = "turnlog.webhook.outcome", "turnlog.webhook.place"


@pytest_asyncio.fixture
async def hooks(idle: RunningGateway) -> AsyncIterator[WebhookStand]:
    receiver = WebhookReceiver()
    async with receiver.listen(), open_webhook_stand(idle, receiver) as stand:
        yield stand


async def test_first_delivery_of_a_process_is_an_increase_from_zero() -> None:
    measured = MeasuredFigures()
    metrics = DeliveryMetrics(measured.meter)
    none = dict.fromkeys(("delivered", "failed", "given_up", "stopped"), 0)
    assert measured.read_values(DELIVERIES_METRIC, OUTCOME) == none
    metrics.record_outcome("stopped")
    assert measured.read_values(DELIVERIES_METRIC, OUTCOME) == none | {"stopped": 1}


async def test_deliveries_failures_and_sessions_that_were_given_up_are_counted(
    hooks: WebhookStand,
) -> None:
    failing = await hooks.play_session()
    others = [await hooks.play_session() for _ in range(4)]

    async def answer(delivery: Delivery) -> Answer:
        return BAD if delivery.session == failing else GOOD

    hooks.receiver.answer = answer
    await hooks.add_webhook()
    measured = MeasuredFigures()
    hooks.metrics = DeliveryMetrics(measured.meter)
    async with hooks.deliver(replace(TERMS, retry_delays=(0.02, 0.02))) as deliverer:
        for session in others:
            await hooks.receiver.wait_for_positions(set(await hooks.list_positions(session)))
        await hooks.wait_for_webhook(lambda shown: shown["webhook"]["given_up"] == 1)
        await deliverer.service.wait_for_looks(2)
        places = measured.read_values(SESSIONS_METRIC, PLACE)
        lag = measured.read_values(LAG_METRIC)
    found = measured.read_values(DELIVERIES_METRIC, OUTCOME)
    assert found == {
        "delivered": len(hooks.receiver.accepted),
        "failed": 3,
        "given_up": 1,
        "stopped": 0,
    }
    assert places == {"behind": 0, "given_up": 1}
    assert lag == {"": 0}, "what was given up waits for nobody"


async def test_lag_is_the_age_of_the_oldest_event_that_is_not_delivered(
    hooks: WebhookStand,
) -> None:
    await hooks.play_session(0)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def answer(delivery: Delivery) -> Answer:
        del delivery
        begun.set()
        await go_on.wait()
        return GOOD

    hooks.receiver.answer = answer
    await hooks.add_webhook()
    measured = MeasuredFigures()
    hooks.metrics = DeliveryMetrics(measured.meter)
    async with hooks.deliver() as deliverer:
        await asyncio.wait_for(begun.wait(), 30)
        await deliverer.service.wait_for_looks(2)
        early = measured.read_values(LAG_METRIC)[""]
        await deliverer.service.wait_for_looks(2)
        assert measured.read_values(LAG_METRIC)[""] > early > 0
        go_on.set()
        await hooks.receiver.wait_for_positions(set(await hooks.list_positions()))
        async with asyncio.timeout(30):
            while measured.read_values(LAG_METRIC)[""]:
                await deliverer.service.wait_for_looks(1)


async def test_webhook_that_is_stopped_is_counted_once(hooks: WebhookStand) -> None:
    await hooks.play_session()

    async def answer(delivery: Delivery) -> Answer:
        del delivery
        return b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"

    hooks.receiver.answer = answer
    await hooks.add_webhook()
    measured = MeasuredFigures()
    hooks.metrics = DeliveryMetrics(measured.meter)
    async with hooks.deliver():
        await hooks.wait_for_webhook(lambda shown: shown["webhook"]["status"] == "stopped")
    assert measured.read_values(DELIVERIES_METRIC, OUTCOME)["stopped"] == 1
