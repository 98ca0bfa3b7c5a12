"""Delivers the events of all webhooks of a tenant that this process can claim.

It looks at the webhooks once a second, runs one delivery for each that is active and whose claim is
free, and ends a delivery in good order when a command is recorded about its webhook. Any number of
processes may do so: each webhook is delivered by one of them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

import structlog

from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.errors import TurnlogError
from turnlog.events.model.webhook_events import WebhookClaimed, WebhookPlace
from turnlog.events.store.ports import EventLog, TokenStream
from turnlog.projections.webhooks.webhook_subscriptions import StoredWebhook
from turnlog.services.audit.redactions import RedactionCache
from turnlog.services.sessions.session_openings import SessionOpenings
from turnlog.services.webhooks.delivery.delivery_metrics import DeliveryMetrics
from turnlog.services.webhooks.delivery.delivery_progress import (
    DeliveryProgress,
    resume_progress,
)
from turnlog.services.webhooks.delivery.webhook_lease import (
    LEASE_SECONDS,
    ClaimLost,
    WebhookLease,
)
from turnlog.services.webhooks.delivery.webhook_runner import (
    DELIVERER,
    DeliveryTerms,
    WebhookRunner,
)
from turnlog.services.webhooks.delivery.webhook_sender import MAX_CONNECTIONS, WebhookSender
from turnlog.services.webhooks.webhook_keys import WebhookKey
from turnlog.services.webhooks.webhook_service import WebhookService

_log = structlog.get_logger("turnlog.webhooks")

LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at the webhooks."""

MAX_ERROR_WAIT: Final = 30.0
"""Seconds after which a delivery that failed for an error of the log is begun again at the latest.
"""


@dataclass(kw_only=True)
class _Delivery:
    """The delivery of one webhook while it runs, or until it is begun again."""

    webhook: StoredWebhook
    task: asyncio.Task[bool]
    stop: asyncio.Event


@dataclass(kw_only=True)
class WebhookDeliverer:
    """Runs the deliveries of a process."""

    tenant: str
    name: str
    """The name of the process, as the record has it."""
    key: WebhookKey
    log: EventLog
    alerts: EventLog
    """The log of alerts, whose events are delivered to some."""
    tokens: TokenStream
    service: WebhookService
    sender: WebhookSender
    terms: DeliveryTerms = field(default_factory=DeliveryTerms)
    is_alone: bool = False
    """Whether no other process can deliver, so that no claim has to lapse first."""
    lease_seconds: float = LEASE_SECONDS
    look_seconds: float = LOOK_SECONDS
    metrics: DeliveryMetrics = field(default_factory=DeliveryMetrics)
    _connections: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(MAX_CONNECTIONS)
    )
    _redactions: RedactionCache = field(default_factory=RedactionCache)
    _alert_redactions: RedactionCache = field(default_factory=RedactionCache)
    """There are none: events of alerts have no text of a session."""
    _openings: SessionOpenings = field(init=False)
    _leases: dict[str, WebhookLease] = field(default_factory=dict[str, WebhookLease])
    _running: dict[str, _Delivery] = field(default_factory=dict[str, _Delivery])
    _runners: dict[str, WebhookRunner] = field(default_factory=dict[str, WebhookRunner])
    """What delivers the webhooks that this process has claimed."""
    _settled: dict[str, int] = field(default_factory=dict[str, int])
    """Webhooks that wait for a command, by the last event about each."""
    _failures: dict[str, int] = field(default_factory=dict[str, int])
    """Errors in a row, by webhook."""
    _is_ending: bool = False

    def __post_init__(self) -> None:
        self._openings = SessionOpenings(self.log)

    async def run(self) -> None:
        """Deliver until cancelled."""
        try:
            while True:
                try:
                    await self._look_at_webhooks()
                except TurnlogError as error:
                    _log.warning("webhooks-unreadable", detail=str(error))
                self._measure_places()
                await asyncio.sleep(self.look_seconds)
        finally:
            await cancel_tasks(*(each.task for each in self._running.values()))

    def _measure_places(self) -> None:
        runners = [*self._runners.values()]
        self.metrics.record_places(
            self.tenant,
            oldest=max((each.measure_oldest() for each in runners), default=0.0),
            behind=sum(len(each.progress.list_retried()) for each in runners),
            given_up=sum(each.progress.count_given_up() for each in runners),
        )

    def count_running(self) -> int:
        """Return how many webhooks this process delivers, or is about to."""
        return sum(not each.task.done() for each in self._running.values())

    def list_leases(self) -> list[WebhookLease]:
        """Return the leases of the webhooks that this process has tried to claim."""
        return [*self._leases.values()]

    async def end(self, seconds: float) -> None:
        """End all deliveries in good order, within so many seconds, and begin none any more."""
        self._is_ending = True
        for each in self._running.values():
            each.stop.set()
        tasks = [each.task for each in self._running.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    async def _look_at_webhooks(self) -> None:
        found = await self.service.load_webhooks(self.tenant)
        wanted = {each.id: each for each in found.by_name.values() if not each.paused}
        for webhook_id, delivery in list(self._running.items()):
            if delivery.task.done():
                self._collect(webhook_id, delivery)
            elif wanted.get(webhook_id) != delivery.webhook:
                delivery.stop.set()
        begun = {} if self._is_ending else wanted
        for webhook_id, webhook in begun.items():
            if webhook_id in self._running or self._settled.get(webhook_id) == webhook.changed:
                continue
            stop = asyncio.Event()
            task = asyncio.create_task(self._deliver_webhook(webhook, stop))
            self._running[webhook_id] = _Delivery(webhook=webhook, task=task, stop=stop)

    def _collect(self, webhook_id: str, delivery: _Delivery) -> None:
        """Note how a delivery ended; it is begun again unless it waits for a command."""
        del self._running[webhook_id]
        error = None if delivery.task.cancelled() else delivery.task.exception()
        if error is not None:
            _log.error("webhook-delivery-ended", webhook=delivery.webhook.name, error=repr(error))
        elif not delivery.task.cancelled() and delivery.task.result():
            self._settled[webhook_id] = delivery.webhook.changed

    async def _deliver_webhook(self, webhook: StoredWebhook, stop: asyncio.Event) -> bool:
        """Deliver a webhook as long as it is claimed; return whether it waits for a command."""
        if webhook.key != self.key.sign:
            detail = "its secret was derived from another TURNLOG_WEBHOOK_KEY"
            _log.error("webhook-key-changed", webhook=webhook.name, detail=detail)
            return True
        try:
            return await self._claim_and_run(webhook, stop)
        except ClaimLost:
            _log.warning("webhook-claim-lost", webhook=webhook.name)
        except TurnlogError as error:
            await self._wait_after(webhook, error, stop)
        else:
            self._failures.pop(webhook.id, None)
        return False

    async def _wait_after(
        self, webhook: StoredWebhook, error: TurnlogError, stop: asyncio.Event
    ) -> None:
        failures = self._failures.get(webhook.id, 0) + 1
        self._failures[webhook.id] = failures
        _log.warning("webhook-delivery-interrupted", webhook=webhook.name, detail=str(error))
        try:
            async with asyncio.timeout(min(MAX_ERROR_WAIT, 0.5 * 2 ** min(failures, 10))):
                await stop.wait()
        except TimeoutError:
            return

    async def _claim_and_run(self, webhook: StoredWebhook, stop: asyncio.Event) -> bool:
        lease = self._leases.setdefault(
            webhook.id,
            WebhookLease(
                tokens=self.tokens,
                webhook_id=webhook.id,
                seconds=self.lease_seconds,
                sending=self.sender.seconds,
            ),
        )
        recorded = await self.service.load_place(self.tenant, webhook.id, leader=True)
        place = recorded.place if recorded else None
        if place is not None and place.stopped and webhook.resumed <= place.handled:
            return True
        if not self.is_alone and not await lease.is_free(place):
            return False
        progress = await self._claim(webhook, lease, place)
        if progress is None:
            return False
        runner = WebhookRunner(
            tenant=self.tenant,
            webhook=webhook,
            secret=self.key.derive_secret(self.tenant, webhook.id),
            progress=progress,
            lease=lease,
            log=self.alerts if webhook.filter.alerts else self.log,
            service=self.service,
            sender=self.sender,
            redactions=self._alert_redactions if webhook.filter.alerts else self._redactions,
            openings=self._openings,
            clock=self.service.parts.clock,
            terms=self.terms,
            metrics=self.metrics,
            connections=self._connections,
            stop=stop,
        )
        self._runners[webhook.id] = runner
        try:
            await runner.run()
        finally:
            del self._runners[webhook.id]
            await lease.release()
        return progress.stopped is not None

    async def _claim(
        self, webhook: StoredWebhook, lease: WebhookLease, seen: WebhookPlace | None
    ) -> DeliveryProgress | None:
        """Claim a webhook; return how far it is, or None if another process was first."""
        claim = (seen.claim if seen else 0) + 1
        if not await lease.start_claim(claim):
            return None
        progress = resume_progress(seen, webhook, claim)

        def decide(latest: WebhookPlace | None) -> WebhookClaimed:
            if latest != seen:
                raise ClaimLost
            return WebhookClaimed(
                name=webhook.name, deliverer=self.name, place=progress.build_place()
            )

        await self.service.save_place(self.tenant, webhook.id, decide, DELIVERER)
        _log.info("webhook-claimed", webhook=webhook.name, claim=claim, after=progress.after)
        return progress
