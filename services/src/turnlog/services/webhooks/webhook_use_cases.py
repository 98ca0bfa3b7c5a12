"""Adding, reading, pausing, resuming and removing webhooks.

A command is an event. Deliverers see it within a second; they are in the projector processes.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from turnlog.contract.webhook_payloads import (
    AddedWebhook,
    AddWebhookRequest,
    DeliveryFailureView,
    RedeliverWebhookRequest,
    SessionDeliveryView,
    WebhookDeliveries,
    WebhookPage,
    WebhookResult,
    WebhookStatus,
    WebhookView,
)
from turnlog.events.errors import Refused
from turnlog.events.model.alert_events import (
    AlertCleared,
    AlertRaised,
    AlertReminded,
    AlertWarned,
)
from turnlog.events.model.webhook_events import (
    DeliveryFailure,
    SessionPlace,
    WebhookAdded,
    WebhookFilter,
    WebhookPlace,
)
from turnlog.events.registry import ALERT_EVENT_TYPES, format_event_name
from turnlog.events.store.ports import EventLog
from turnlog.projections.blueprint.sent_names import format_sent_name
from turnlog.projections.blueprint.storable_json import check_text
from turnlog.projections.blueprint.validation.blueprint_faults import suggest_word
from turnlog.projections.webhooks.webhook_subscriptions import StoredWebhook
from turnlog.services.command_handling.callers import Caller
from turnlog.services.platform.process_settings import WebhookSettings
from turnlog.services.webhooks.webhook_keys import get_webhook_key, require_webhook_key
from turnlog.services.webhooks.webhook_service import WebhookChange, WebhookService
from turnlog.services.webhooks.webhook_targets import check_target

REPEATED_SECRET_AGE: Final = timedelta(minutes=10)
"""How long after it was carried out a repeated request to add a webhook is told the secret again:
its first answer may have been lost on the way.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookUseCases:
    """Reads and changes webhooks."""

    service: WebhookService
    log: EventLog
    """The log of sessions, whose events are delivered."""
    alerts: EventLog
    """The log of alerts, whose events are delivered to some."""
    settings: WebhookSettings
    parse_names: Callable[[str], frozenset[str] | None]
    """Return the event names of a list with commas; raise `Refused` for unknown ones."""

    async def list_webhooks(self, tenant: str) -> WebhookPage:
        """List the webhooks with how far each has got."""
        found = await self.service.load_webhooks(tenant)
        views = [
            await self._load_view(tenant, webhook) for _, webhook in sorted(found.by_name.items())
        ]
        return WebhookPage(sequence=found.sequence, webhooks=tuple(views))

    async def load_deliveries(self, tenant: str, name: str) -> WebhookDeliveries:
        """Return how far a webhook has got, with every session that is behind."""
        found = await self.service.load_webhooks(tenant)
        webhook = found.get_webhook(check_text(name, "name"))
        # Read once, so that the figures are of the sessions that are listed.
        place = await self._load_place(tenant, webhook)
        end = await self._choose_log(webhook.filter).get_last_stream_sequence(tenant)
        return WebhookDeliveries(
            sequence=found.sequence,
            webhook=self._create_view(webhook, place, end),
            sessions=tuple(
                _create_session_view(each)
                for each in sorted(place.behind, key=lambda each: each.after)
            ),
        )

    async def add_webhook(self, caller: Caller, form: AddWebhookRequest) -> AddedWebhook:
        """Add a webhook, and return its secret; raises `Refused` for a faulty one."""
        key = require_webhook_key(get_webhook_key(self.settings))
        check_target(form.url, self.settings.webhook_targets)
        chosen = self._create_filter(form)
        end = await self._choose_log(chosen).get_last_stream_sequence(caller.tenant)
        if form.after is not None and form.after > end:
            fix = "leave it out for what comes from now on"
            raise Refused("not-there-yet", "the log has no such position", field="after", fix=fix)
        added = WebhookAdded(
            name=form.name,
            id=secrets.token_hex(8),
            url=form.url,
            filter=chosen,
            after=end if form.after is None else form.after,
            key=key.sign,
        )
        change = await self.service.add_webhook(caller, added)
        secret = key.derive_secret(caller.tenant, change.webhook.id)
        return AddedWebhook(
            sequence=change.webhooks.sequence,
            webhook=await self._load_view(caller.tenant, change.webhook),
            secret=secret if self._may_repeat_secret(change) else None,
        )

    def _choose_log(self, chosen: WebhookFilter) -> EventLog:
        return self.alerts if chosen.alerts else self.log

    def _create_filter(self, form: AddWebhookRequest) -> WebhookFilter:
        if form.alerts:
            return _create_alert_filter(form)
        names = self.parse_names(",".join(form.types)) if form.types else None
        return WebhookFilter(
            types=tuple(sorted(names or ())),
            blueprint=form.blueprint and check_text(form.blueprint, "blueprint"),
            attributes={
                check_text(name, "attributes"): check_text(value, "attributes")
                for name, value in form.attributes.items()
            },
        )

    def _may_repeat_secret(self, change: WebhookChange) -> bool:
        if change.repeated_at is None:
            return True
        age = self.service.parts.clock() - datetime.fromisoformat(change.repeated_at)
        return age <= REPEATED_SECRET_AGE

    async def pause_webhook(self, caller: Caller, name: str) -> WebhookResult:
        """Deliver nothing until the webhook is resumed."""
        change = await self.service.pause_webhook(caller, check_text(name, "name"))
        return await self._create_result(caller.tenant, change)

    async def resume_webhook(self, caller: Caller, name: str) -> WebhookResult:
        """Deliver from where the webhook was, also if a deliverer stopped it by itself."""
        change = await self.service.resume_webhook(caller, check_text(name, "name"))
        return await self._create_result(caller.tenant, change)

    async def redeliver_webhook(
        self, caller: Caller, name: str, form: RedeliverWebhookRequest
    ) -> WebhookResult:
        """Deliver the sessions that were given up, from where each of them was."""
        found = await self.service.load_webhooks(caller.tenant)
        webhook = found.get_webhook(check_text(name, "name"))
        if form.session is not None:
            place = await self._load_place(caller.tenant, webhook)
            _require_given_up(place, check_text(form.session, "session"))
        change = await self.service.redeliver_webhook(caller, webhook.name, form.session)
        return await self._create_result(caller.tenant, change)

    async def remove_webhook(self, caller: Caller, name: str) -> WebhookResult:
        """Remove a webhook; returns what it was, and how far it got."""
        change = await self.service.remove_webhook(caller, check_text(name, "name"))
        return await self._create_result(caller.tenant, change)

    async def _create_result(self, tenant: str, change: WebhookChange) -> WebhookResult:
        view = await self._load_view(tenant, change.webhook)
        return WebhookResult(sequence=change.webhooks.sequence, webhook=view)

    def _find_key_fault(self, webhook: StoredWebhook) -> DeliveryFailure | None:
        """Return why deliverers with the key of this process deliver nothing, or None."""
        key = get_webhook_key(self.settings)
        if key is None or key.sign == webhook.key:
            return None
        detail = "its secret was derived from another TURNLOG_WEBHOOK_KEY: add the webhook again"
        return DeliveryFailure(at=webhook.at, position=0, detail=detail)

    async def _load_place(self, tenant: str, webhook: StoredWebhook) -> WebhookPlace:
        found = await self.service.load_place(tenant, webhook.id)
        return found.place if found else WebhookPlace(after=webhook.after)

    async def _load_view(self, tenant: str, webhook: StoredWebhook) -> WebhookView:
        place = await self._load_place(tenant, webhook)
        end = await self._choose_log(webhook.filter).get_last_stream_sequence(tenant)
        return self._create_view(webhook, place, end)

    def _create_view(self, webhook: StoredWebhook, place: WebhookPlace, end: int) -> WebhookView:
        """Return a webhook as answers have it; `end` is the end of the log."""
        key_fault = self._find_key_fault(webhook)
        failure = key_fault or place.stopped or _find_latest_failure(place)
        return WebhookView(
            name=webhook.name,
            id=webhook.id,
            url=webhook.url,
            alerts=webhook.filter.alerts,
            types=webhook.filter.types,
            blueprint=webhook.filter.blueprint,
            attributes=webhook.filter.attributes,
            added_at=webhook.at,
            status="stopped" if key_fault else _get_status(webhook, place),
            after=place.after,
            waiting=max(0, end - place.after),
            delivered=place.delivered,
            delivered_at=place.delivered_at,
            behind=sum(not each.given_up for each in place.behind),
            given_up=sum(each.given_up for each in place.behind),
            failure=failure and _create_failure_view(failure),
        )


ALERT_EVENT_NAMES: Final = tuple(map(format_event_name, ALERT_EVENT_TYPES))

NOTIFICATIONS: Final = tuple(
    format_event_name(kind.type) for kind in (AlertWarned, AlertRaised, AlertReminded, AlertCleared)
)
"""The events of alerts that a webhook gets unless it names others: not each crossed threshold."""


def _create_alert_filter(form: AddWebhookRequest) -> WebhookFilter:
    for field in ("blueprint", "attributes"):
        if getattr(form, field):
            detail = "an alert belongs to no session"
            fix = "leave it out: the rule of an alert says what is measured"
            raise Refused("invalid", detail, field=field, fix=fix)
    for name in form.types:
        if name not in ALERT_EVENT_NAMES:
            detail = f"there is no event of alerts {format_sent_name(name)}"
            fix = suggest_word(name, ALERT_EVENT_NAMES)
            raise Refused("unknown-type", detail, field="types", fix=fix)
    return WebhookFilter(types=tuple(sorted(form.types)) or NOTIFICATIONS, alerts=True)


def _get_status(webhook: StoredWebhook, place: WebhookPlace) -> WebhookStatus:
    if webhook.paused:
        return "paused"
    is_stopped = place.stopped is not None and webhook.resumed <= place.handled
    return "stopped" if is_stopped else "active"


def _require_given_up(place: WebhookPlace, session: str) -> None:
    if not any(each.session == session and each.given_up for each in place.behind):
        detail = "no deliveries of this session were given up"
        fix = "see `/v1/webhooks/NAME/deliveries` for those that were"
        raise Refused("not-given-up", detail, field="session", fix=fix)


def _find_latest_failure(place: WebhookPlace) -> DeliveryFailure | None:
    failures = (each.failure for each in place.behind if each.failure)
    return max(failures, key=lambda each: each.at, default=None)


def _create_failure_view(failure: DeliveryFailure) -> DeliveryFailureView:
    return DeliveryFailureView(
        at=failure.at, position=failure.position, status=failure.status, detail=failure.detail
    )


def _create_session_view(place: SessionPlace) -> SessionDeliveryView:
    return SessionDeliveryView(
        session=place.session,
        after=place.after,
        upto=place.upto,
        tries=place.tries,
        failing_since=place.failing_since,
        next_try=place.next_try,
        given_up=place.given_up,
        failure=place.failure and _create_failure_view(place.failure),
    )
