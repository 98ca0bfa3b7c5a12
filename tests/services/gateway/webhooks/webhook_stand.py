"""Gateways and deliverers of webhooks on one log, as the tests of deliveries need them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

from tests.services.gateway.gateway_service import RunningGateway, build_library_parts
from tests.support.webhooks.webhook_receiver import WAIT_SECONDS, Delivery, WebhookReceiver
from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.codec import decode_library_event
from turnlog.events.model.webhook_events import WebhookPlaceEvent
from turnlog.events.registry import format_event_name
from turnlog.projections.webhooks.webhook_subscriptions import TenantWebhooks
from turnlog.services.platform.clock import read_clock
from turnlog.services.webhooks.delivery.delivery_metrics import DeliveryMetrics
from turnlog.services.webhooks.delivery.webhook_deliverer import WebhookDeliverer
from turnlog.services.webhooks.delivery.webhook_lease import WebhookLease
from turnlog.services.webhooks.delivery.webhook_runner import DeliveryTerms
from turnlog.services.webhooks.delivery.webhook_sender import (
    DeliveryFault,
    WebhookMessage,
    WebhookSender,
    open_sender,
)
from turnlog.services.webhooks.webhook_keys import WebhookKey
from turnlog.services.webhooks.webhook_service import WebhookService

KEY = "5e" * 32

TERMS = DeliveryTerms(
    retry_delays=(0.05,) * 7, save_seconds=0.05, failure_save_seconds=0.1, idle_save_seconds=0.2
)
"""Terms by which tests need not wait."""


@dataclass
class WatchedService(WebhookService):
    """A service that tells how often its deliverer looked at the webhooks."""

    looks: int = 0
    _looked: asyncio.Event = field(default_factory=asyncio.Event)

    async def load_webhooks(self, tenant: str) -> TenantWebhooks:
        self.looks += 1
        self._looked.set()
        return await super().load_webhooks(tenant)

    async def wait_for_looks(self, count: int) -> None:
        """Wait until the deliverer has looked so many times more."""
        goal = self.looks + count
        while self.looks < goal:
            self._looked.clear()
            await asyncio.wait_for(self._looked.wait(), WAIT_SECONDS)


@dataclass(frozen=True, kw_only=True)
class CountingSender(WebhookSender):
    """A sender that knows what is under way."""

    under_way: list[str] = field(default_factory=list[str])
    counts: list[int] = field(default_factory=list[int])
    """How many were under way at each beginning of one."""

    async def send(self, url: str, secret: str, message: WebhookMessage) -> DeliveryFault | None:
        self.under_way.append(message.id)
        self.counts.append(len(self.under_way))
        try:
            return await super().send(url, secret, message)
        finally:
            self.under_way.remove(message.id)


@dataclass(kw_only=True)
class WatchedDeliverer:
    """A deliverer, and parts of it that tell what it does."""

    running: WebhookDeliverer
    service: WatchedService
    sender: CountingSender

    def count_running(self) -> int:
        return self.running.count_running()

    def list_leases(self) -> list[WebhookLease]:
        return self.running.list_leases()

    async def end(self, seconds: float) -> None:
        await self.running.end(seconds)


@dataclass(repr=False, kw_only=True)
class WebhookStand:
    """A gateway, a receiver, and deliverers that a test starts and ends."""

    gateway: RunningGateway
    receiver: WebhookReceiver
    secrets: dict[str, str] = field(default_factory=dict[str, str])
    metrics: DeliveryMetrics = field(default_factory=DeliveryMetrics)

    async def add_webhook(self, name: str = "billing", **form: Any) -> None:  # noqa: ANN401
        """Add a webhook; by default with everything on the log."""
        body = {"name": name, "url": self.receiver.url, "after": 0} | form
        answer = await self.gateway.http.post("/v1/webhooks", json=body)
        assert answer.status_code == 201, answer.text
        self.secrets[name] = answer.json()["secret"]

    async def send(self, command: str, name: str = "billing", **form: Any) -> Any:  # noqa: ANN401
        """Send a command about a webhook."""
        path = f"/v1/webhooks/{name}/{command}"
        body = form if form or command == "redeliver" else None
        answer = await self.gateway.http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["webhook"]

    async def play_session(self, turns: int = 1, **form: Any) -> str:  # noqa: ANN401
        """Open a session and cancel turns of it; return its id."""
        session = await self.gateway.open_session(**form)
        for _ in range(turns):
            await self.gateway.submit_turn(session)
            answer = await self.gateway.http.post(f"/v1/sessions/{session}/cancel")
            assert answer.status_code == 200, answer.text
        return session

    async def list_positions(self, session: str | None = None, *names: str) -> list[int]:
        """Return the positions of stored events, of a session and of some names."""
        log, tenant = self.gateway.backend.log, self.gateway.tenant
        found: list[int] = []
        async for raws in log.stream_raw_events(tenant, 0, live=False):
            for raw in raws:
                event = await log.decode_event(raw.stored, raw.stream_sequence)
                name = format_event_name(event.envelope.type)
                if session in {None, event.session} and (not names or name in names):
                    found.append(event.stream_sequence)
        return found

    async def list_place_records(self) -> list[WebhookPlaceEvent]:
        """Return what deliverers recorded, in order."""
        library, tenant = self.gateway.backend.library, self.gateway.tenant
        found: list[WebhookPlaceEvent] = []
        async for raws in library.stream_raw_events(tenant, 0, live=False):
            for raw in raws:
                recorded = await library.decode_event(raw.stored, raw.stream_sequence)
                event = decode_library_event(recorded)
                if isinstance(event, WebhookPlaceEvent):
                    found.append(event)
        return found

    async def list_place_events(self) -> list[str]:
        """Return the names of the events that deliverers recorded, in order."""
        return [format_event_name(each.type) for each in await self.list_place_records()]

    async def fetch_webhook(self, name: str = "billing") -> Any:  # noqa: ANN401
        """Return a webhook and its sessions that are behind."""
        return await self.gateway.fetch_json(f"/v1/webhooks/{name}/deliveries")

    async def wait_for_webhook(self, is_met: Callable[[Any], bool], name: str = "billing") -> Any:  # noqa: ANN401
        """Wait until what is shown of a webhook meets a condition."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not is_met(  # noqa: ASYNC110 - nothing tells
                shown := await self.fetch_webhook(name)
            ):
                await asyncio.sleep(0.02)
            return shown

    @asynccontextmanager
    async def deliver(
        self,
        terms: DeliveryTerms = TERMS,
        *,
        seconds: float = 10.0,
        lease_seconds: float = 30.0,
        is_alone: bool = True,
        targets: tuple[str, ...] | None = None,
        name: str = "test-1",
        is_dying: bool = False,
        key: str = KEY,
    ) -> AsyncGenerator[WatchedDeliverer]:
        """Run a deliverer while the body runs; it then ends in good order, unless it is dying."""
        backend = self.gateway.backend
        allowed = (self.receiver.origin,) if targets is None else targets
        async with open_sender(read_clock, allowed) as sender:
            service = WatchedService(build_library_parts(backend, "/test/deliverer"))
            counting = CountingSender(
                http=sender.http, clock=read_clock, allowed=allowed, seconds=seconds
            )
            deliverer = WebhookDeliverer(
                tenant=self.gateway.tenant,
                name=name,
                key=WebhookKey(key),
                log=backend.log,
                alerts=backend.alerts,
                tokens=backend.tokens,
                service=service,
                sender=counting,
                terms=terms,
                is_alone=is_alone,
                lease_seconds=lease_seconds,
                look_seconds=0.02,
                metrics=self.metrics,
            )
            running = asyncio.create_task(deliverer.run())
            try:
                yield WatchedDeliverer(running=deliverer, service=service, sender=counting)
                if not is_dying:
                    await deliverer.end(WAIT_SECONDS)
            finally:
                await cancel_tasks(running)


@asynccontextmanager
async def open_webhook_stand(
    gateway: RunningGateway, receiver: WebhookReceiver
) -> AsyncGenerator[WebhookStand]:
    """Start a gateway that allows the receiver as a target."""
    async with gateway.start_another_gateway(
        webhook_key=SecretStr(KEY), webhook_targets=(receiver.origin,)
    ) as hooked:
        yield WebhookStand(gateway=hooked, receiver=receiver)


def list_positions_of(deliveries: list[Delivery]) -> list[int]:
    """Return the positions of deliveries in order."""
    return [each.position for each in deliveries]
