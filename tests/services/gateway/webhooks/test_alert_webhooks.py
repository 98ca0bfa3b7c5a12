"""Webhooks for alerts: what they get, and a receiver that is away for an hour."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import httpx
import pytest
import pytest_asyncio

from tests.services.gateway.gateway_service import (
    MemoryBackend,
    RunningGateway,
    build_alert_service,
)
from tests.services.gateway.webhooks.webhook_stand import KEY, WebhookStand, open_webhook_stand
from tests.simulation.processes.simulated_loop import SimulatedLoop
from tests.support.generators.alert_samples import SAMPLE_STATE, build_alert_samples
from tests.support.webhooks.webhook_receiver import WebhookReceiver
from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.model.alert_events import AlertEvent, AlertRaised, AlertRule, KnownAlertEvent
from turnlog.events.model.webhook_events import WebhookAdded, WebhookFilter
from turnlog.services.alerts.alert_evaluator import AlertEvaluator
from turnlog.services.alerts.alert_service import AlertService
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.command_handling.tenant_histories import LibraryParts
from turnlog.services.platform.clock import create_id
from turnlog.services.webhooks.delivery.webhook_deliverer import WebhookDeliverer
from turnlog.services.webhooks.delivery.webhook_sender import (
    DeliveryFault,
    WebhookMessage,
    WebhookSender,
)
from turnlog.services.webhooks.webhook_keys import WebhookKey
from turnlog.services.webhooks.webhook_service import WebhookService


@pytest_asyncio.fixture
async def hooks(idle: RunningGateway) -> AsyncIterator[WebhookStand]:
    receiver = WebhookReceiver()
    async with receiver.listen(), open_webhook_stand(idle, receiver) as stand:
        yield stand


async def record(service: AlertService, tenant: str, event: KnownAlertEvent) -> None:
    """Record an event of an alert, whatever was recorded before it."""

    async def decide(latest: AlertEvent | None) -> KnownAlertEvent:
        del latest
        return event

    await service.record_alert(tenant, event.name, decide)


async def test_alert_is_raised_delivered_signed_and_cleared_later(hooks: WebhookStand) -> None:
    gateway = hooks.gateway
    rule = {"name": "lag", "measure": "projector_lag", "above": -1}
    assert (await gateway.http.put("/v1/alerts", json={"alerts": [rule]})).status_code == 200
    await hooks.add_webhook("oncall", alerts=True)
    await hooks.play_session(1)  # Not for this one.
    evaluator = AlertEvaluator(
        log=gateway.backend.log,
        store=gateway.store,
        service=build_alert_service(gateway.backend, "/turnlog/projector"),
        clock=lambda: datetime.now(UTC),
    )
    async with hooks.deliver():
        await evaluator.evaluate_alerts()
        await hooks.receiver.wait_for(lambda: len(hooks.receiver.accepted) == 1)
        assert (await gateway.http.delete("/v1/alerts/lag")).status_code == 200
        await evaluator.evaluate_alerts()
        await hooks.receiver.wait_for(lambda: len(hooks.receiver.accepted) == 2)
    raised, cleared = hooks.receiver.accepted
    assert (raised.name, cleared.name, raised.session) == ("alert-raised", "alert-cleared", "lag")
    assert raised.message["data"]["data"]["state"]["status"] == "raised"
    assert cleared.message["data"]["data"]["reason"] == "rule-removed"
    secret = hooks.secrets["oncall"]
    assert raised.has_signature_of(secret)
    assert not raised.has_signature_of(secret[:-4] + "AAA=")
    shown = (await hooks.fetch_webhook("oncall"))["webhook"]
    assert (shown["alerts"], shown["delivered"], shown["waiting"]) == (True, 2, 0)


async def test_webhook_gets_the_events_of_alerts_that_tell_somebody_unless_it_names_others(
    hooks: WebhookStand,
) -> None:
    service = build_alert_service(hooks.gateway.backend, "/turnlog/projector")
    await hooks.add_webhook("usual", alerts=True)
    await hooks.add_webhook(
        "all",
        alerts=True,
        types=[
            f"alert-{name}"
            for name in ("threshold-crossed", "warned", "raised", "reminded", "cleared")
        ],
    )
    for event in build_alert_samples().values():
        await record(service, hooks.gateway.tenant, event)
    async with hooks.deliver():
        await hooks.receiver.wait_for(lambda: len(hooks.receiver.accepted) == 9)
    by_webhook = {
        name: [each.name for each in hooks.receiver.accepted if each.message["webhook"] == name]
        for name in ("usual", "all")
    }
    assert by_webhook["all"] == [*build_alert_samples()]
    assert by_webhook["usual"] == by_webhook["all"][1:]


@pytest.mark.parametrize(
    ("form", "code", "field"),
    [
        ({"blueprint": "clerk"}, "invalid", "blueprint"),
        ({"attributes": {"desk": "d"}}, "invalid", "attributes"),
        ({"types": ["turn-completed"]}, "unknown-type", "types"),
        ({"after": 2**50}, "not-there-yet", "after"),
    ],
)
async def test_filter_that_alerts_have_not_is_refused(
    hooks: WebhookStand, form: dict[str, object], code: str, field: str
) -> None:
    body = {"name": "oncall", "url": hooks.receiver.url, "alerts": True} | form
    answer = await hooks.gateway.http.post("/v1/webhooks", json=body)
    assert (answer.json()["code"], answer.json()["field"]) == (code, field)
    events = await hooks.gateway.http.post(
        "/v1/webhooks", json=body | {"alerts": None, "types": ["alert-raised"]}
    )
    assert events.json()["code"] == "unknown-type"


async def test_alert_that_is_given_up_is_shown_and_delivered_again(hooks: WebhookStand) -> None:
    service = build_alert_service(hooks.gateway.backend, "/turnlog/projector")
    await hooks.add_webhook("oncall", alerts=True)
    raised = build_alert_samples()["alert-raised"]
    async with hooks.deliver(targets=()):
        await record(service, hooks.gateway.tenant, raised)
        shown = await hooks.wait_for_webhook(lambda view: view["webhook"]["given_up"], "oncall")
    (behind,) = shown["sessions"]
    assert (behind["session"], behind["tries"]) == (raised.name, 8)
    await hooks.send("redeliver", "oncall", session=raised.name)
    async with hooks.deliver():
        await hooks.receiver.wait_for(lambda: len(hooks.receiver.accepted) == 1)


@dataclass(frozen=True, kw_only=True)
class AwaySender(WebhookSender):
    """A receiver that is away until a time, by the clock of the test."""

    until: datetime
    tried: list[datetime] = field(default_factory=list[datetime])
    accepted: list[str] = field(default_factory=list[str])

    async def send(self, url: str, secret: str, message: WebhookMessage) -> DeliveryFault | None:
        del url, secret
        self.tried.append(self.clock())
        if self.clock() < self.until:
            return DeliveryFault("the receiver could not be reached")
        self.accepted.append(message.id)
        return None


def test_receiver_that_is_down_for_an_hour_and_then_up_gets_each_alert_once() -> None:
    loop = SimulatedLoop(random.Random(0), until=3 * 3_600)  # noqa: S311 - it guards nothing
    begin = loop.read_clock()
    backend = MemoryBackend()
    parts = LibraryParts(
        log=backend.library,
        blobs=backend.blobs,
        clock=loop.read_clock,
        create_id=create_id,
        source="/test",
    )
    alerts, webhooks = AlertService(parts, backend.alerts), WebhookService(parts)

    async def run() -> AwaySender:
        sender = AwaySender(
            http=httpx.AsyncClient(verify=False),  # noqa: S501 - it sends nothing
            clock=loop.read_clock,
            allowed=(),
            until=begin + timedelta(hours=1),
        )
        deliverer = WebhookDeliverer(
            tenant="t",
            name="test",
            key=WebhookKey(KEY),
            log=backend.log,
            alerts=backend.alerts,
            tokens=backend.tokens,
            service=webhooks,
            sender=sender,
            is_alone=True,
        )
        added = WebhookAdded(
            name="oncall",
            id="5e5e",
            url="http://receiver",
            filter=WebhookFilter(alerts=True, types=("alert-raised",)),
            after=0,
            key=WebhookKey(KEY).sign,
        )
        caller = Caller(tenant="t", metadata=CommandMetadata("operator"))
        await webhooks.add_webhook(caller, added)
        delivering = asyncio.create_task(deliverer.run())
        for name in ("first", "second"):
            rule = AlertRule(measure="cost", above=1)
            raised = AlertRaised(name=name, rule=rule, value=2, state=SAMPLE_STATE)
            await record(alerts, "t", raised)
        while len(sender.accepted) < 2:  # noqa: ASYNC110 - time is simulated
            await asyncio.sleep(60)
        await asyncio.sleep(3_600)
        await deliverer.end(10)
        await cancel_tasks(delivering)
        return sender

    sender = loop.run_until_done(run())
    assert sorted(sender.accepted) == ["msg_5e5e_1", "msg_5e5e_2"]
    assert len(sender.tried) == 2 * 8, "eight tries each, over an hour"
    assert max(sender.tried) - begin < timedelta(minutes=70)
