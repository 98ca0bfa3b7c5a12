"""One process delivers for every tenant that has webhooks, and no tenant holds up another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest_asyncio
from structlog.testing import capture_logs

from tests.services.gateway.gateway_service import RunningGateway, build_library_parts
from tests.services.gateway.webhooks.webhook_stand import (
    KEY,
    TERMS,
    WatchedService,
    WebhookStand,
    open_webhook_stand,
)
from tests.support.webhooks.webhook_receiver import (
    GOOD,
    WAIT_SECONDS,
    Answer,
    Delivery,
    WebhookReceiver,
)
from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.errors import Unavailable
from turnlog.services.platform.clock import read_clock
from turnlog.services.webhooks.delivery.tenant_deliverers import TenantDeliverers
from turnlog.services.webhooks.delivery.webhook_deliverer import WebhookDeliverer
from turnlog.services.webhooks.delivery.webhook_runner import DeliveryTerms
from turnlog.services.webhooks.delivery.webhook_sender import MAX_CONNECTIONS, open_sender
from turnlog.services.webhooks.webhook_keys import WebhookKey


@dataclass(repr=False)
class TwoTenants:
    """Two tenants on one log, each with a receiver."""

    first: WebhookStand
    second: WebhookStand
    is_log_away: bool = False
    looks: int = 0

    async def find_tenants(self, history: str) -> Sequence[str]:
        """Return these tenants alone, since the log has those of other tests too."""
        self.looks += 1
        if self.is_log_away:
            raise Unavailable("nats", "away")
        found = await self.first.gateway.backend.library.list_tenants(history)
        return [each for each in found if each.startswith(self.first.gateway.tenant)]

    @asynccontextmanager
    async def deliver(
        self, max_tenants: int = 64, terms: DeliveryTerms = TERMS
    ) -> AsyncGenerator[TenantDeliverers]:
        """Deliver while the body runs, in a process of the first tenant."""
        backend = self.first.gateway.backend
        allowed = (self.first.receiver.origin, self.second.receiver.origin)
        async with open_sender(read_clock, allowed) as sender:
            service = WatchedService(build_library_parts(backend, "/test/deliverer"))
            deliverers = TenantDeliverers(
                own_tenant=self.first.gateway.tenant,
                find_tenants=self.find_tenants,
                create=lambda tenant: WebhookDeliverer(
                    tenant=tenant,
                    name="test-1",
                    key=WebhookKey(KEY),
                    alerts=backend.alerts,
                    log=backend.log,
                    tokens=backend.tokens,
                    service=service,
                    sender=sender,
                    terms=terms,
                    is_alone=True,
                    look_seconds=0.02,
                ),
                max_tenants=max_tenants,
                find_seconds=0.02,
            )
            running = asyncio.create_task(deliverers.run())
            try:
                yield deliverers
                await deliverers.end(WAIT_SECONDS)
            finally:
                await cancel_tasks(running)

    async def wait_for_looks(self, count: int) -> None:
        """Wait until it was looked for tenants so many times more."""
        goal = self.looks + count
        async with asyncio.timeout(WAIT_SECONDS):
            while self.looks < goal:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)


@pytest_asyncio.fixture
async def tenants(idle: RunningGateway) -> AsyncIterator[TwoTenants]:
    one, two = WebhookReceiver(), WebhookReceiver()
    async with (
        one.listen(),
        two.listen(),
        open_webhook_stand(idle, one) as first,
        idle.start_another_gateway(tenant=f"{idle.tenant}-2") as other,
        open_webhook_stand(other, two) as second,
    ):
        yield TwoTenants(first, second)


async def test_every_tenant_gets_its_own_events_signed_with_its_own_secret(
    tenants: TwoTenants,
) -> None:
    for stand in (tenants.first, tenants.second):
        await stand.play_session(2)
        await stand.add_webhook()
    async with tenants.deliver() as deliverers:
        for stand in (tenants.first, tenants.second):
            await stand.receiver.wait_for_positions(set(await stand.list_positions()))
        assert deliverers.list_tenants() == [
            tenants.first.gateway.tenant,
            tenants.second.gateway.tenant,
        ]
    for stand in (tenants.first, tenants.second):
        positions = [each.position for each in stand.receiver.accepted]
        assert sorted(positions) == await stand.list_positions()
        secret = stand.secrets["billing"]
        assert all(each.has_signature_of(secret) for each in stand.receiver.accepted)
    assert tenants.first.secrets != tenants.second.secrets


async def test_tenant_whose_first_webhook_comes_later_is_found(tenants: TwoTenants) -> None:
    async with tenants.deliver() as deliverers:
        await tenants.wait_for_looks(2)
        assert deliverers.list_tenants() == [tenants.first.gateway.tenant]
        tenants.is_log_away = True
        await tenants.second.add_webhook()
        await tenants.second.play_session()
        await tenants.wait_for_looks(2)
        tenants.is_log_away = False
        expected = set(await tenants.second.list_positions())
        await tenants.second.receiver.wait_for_positions(expected)


async def test_receivers_of_a_tenant_that_never_answer_hold_up_no_other_tenant(
    tenants: TwoTenants,
) -> None:
    go_on = asyncio.Event()

    async def answer(delivery: Delivery) -> Answer:
        del delivery
        await go_on.wait()
        return GOOD

    stuck = tenants.first.receiver
    stuck.answer = answer
    # Many webhooks, each with one session: how many sessions one webhook delivers at
    # a time depends on how many of them come in one reading of the log.
    await tenants.first.play_session(0)
    names = [f"hook-{number}" for number in range(MAX_CONNECTIONS + 4)]
    for name in names:
        await tenants.first.add_webhook(name)
    await tenants.second.play_session(2)
    await tenants.second.add_webhook()
    async with tenants.deliver():
        await stuck.wait_for(lambda: stuck.running == MAX_CONNECTIONS)
        expected = set(await tenants.second.list_positions())
        await tenants.second.receiver.wait_for_positions(expected)
        assert stuck.accepted == []
        # The other webhooks would have had time to send, too.
        await tenants.wait_for_looks(20)
        go_on.set()
        await stuck.wait_for(lambda: len(stuck.accepted) == len(names))
    assert stuck.most_running == MAX_CONNECTIONS


async def test_tenants_beyond_the_most_are_left_out_and_named_in_the_log_once(
    tenants: TwoTenants,
) -> None:
    for stand in (tenants.first, tenants.second):
        await stand.play_session()
        await stand.add_webhook()
    with capture_logs() as logged:
        async with tenants.deliver(max_tenants=1) as deliverers:
            await tenants.first.receiver.wait_for_positions(
                set(await tenants.first.list_positions())
            )
            await tenants.wait_for_looks(3)
            assert deliverers.list_tenants() == [tenants.first.gateway.tenant]
    assert tenants.second.receiver.tried == []
    lines = [each for each in logged if each["event"] == "webhook-tenants-left-out"]
    assert [(each["log_level"], each["count"]) for each in lines] == [("error", 1)]
