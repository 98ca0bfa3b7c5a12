"""A receiver without room is left alone for as long as it asks, within a bound."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from tests.services.gateway.gateway_service import RunningGateway
from tests.services.gateway.webhooks.webhook_stand import (
    TERMS,
    WebhookStand,
    open_webhook_stand,
)
from tests.support.webhooks.webhook_receiver import (
    GOOD,
    Answer,
    Delivery,
    WebhookReceiver,
)
from turnlog.services.webhooks.delivery.retry_after import parse_retry_after

NOW = 1_445_412_400.0
"""Wed, 21 Oct 2015 07:26:40 GMT."""


@pytest_asyncio.fixture
async def hooks(idle: RunningGateway) -> AsyncIterator[WebhookStand]:
    receiver = WebhookReceiver()
    async with receiver.listen(), open_webhook_stand(idle, receiver) as stand:
        yield stand


def build_refusal(status: str, retry_after: str) -> Answer:
    head = f"HTTP/1.1 {status}\r\nRetry-After: {retry_after}\r\nContent-Length: 0\r\n\r\n"
    return head.encode()


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120.0),
        ("0", 0.0),
        ("9" * 400, float("inf")),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 80.0),
        ("Wed, 21 Oct 2015 07:00:00 GMT", 0.0),
        ("Wed, 32 Oct 2015 07:28:00 GMT", None),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("²", None),
        ("soon", None),
    ],
)
def test_header_names_seconds_or_a_date(header: str, seconds: float | None) -> None:
    assert parse_retry_after(header, NOW) == seconds


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
async def test_no_session_is_sent_before_the_receiver_wants_it(
    hooks: WebhookStand, status: str
) -> None:
    for _ in range(3):
        await hooks.play_session()
    times: list[float] = []

    async def answer(delivery: Delivery) -> Answer:
        del delivery
        times.append(asyncio.get_running_loop().time())
        return build_refusal(status, "1") if len(times) == 1 else GOOD

    hooks.receiver.answer = answer
    await hooks.add_webhook()
    async with hooks.deliver(replace(TERMS, at_once=1, behind_at_once=1)):
        await hooks.receiver.wait_for_positions(set(await hooks.list_positions()))
    assert times[1] - times[0] >= 1
    for session, positions in hooks.receiver.list_by_session().items():
        assert positions == await hooks.list_positions(session)


@pytest.mark.parametrize("seconds", ["1000000", "9" * 400])
async def test_receiver_that_asks_for_ever_is_tried_after_the_bound(
    hooks: WebhookStand, seconds: str
) -> None:
    await hooks.play_session()

    async def answer(delivery: Delivery) -> Answer:
        del delivery
        return GOOD if hooks.receiver.tried[1:] else build_refusal("429 Busy", seconds)

    hooks.receiver.answer = answer
    await hooks.add_webhook()
    async with hooks.deliver(replace(TERMS, max_retry_after=0.1)):
        await hooks.receiver.wait_for_positions(set(await hooks.list_positions()))


async def test_failure_of_another_kind_is_tried_again_by_our_own_delays(
    hooks: WebhookStand,
) -> None:
    await hooks.play_session()

    async def answer(delivery: Delivery) -> Answer:
        del delivery
        return GOOD if hooks.receiver.tried[1:] else build_refusal("500 Fault", "3600")

    hooks.receiver.answer = answer
    await hooks.add_webhook()
    async with hooks.deliver():
        await hooks.receiver.wait_for_positions(set(await hooks.list_positions()))
