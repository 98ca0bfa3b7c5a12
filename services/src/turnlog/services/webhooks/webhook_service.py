"""The histories of webhooks: the subscriptions of a tenant, and how far each of them has got.

Every event of a webhook is appended here, by compare-and-set on its own history. What deliverers
write says under which claim; one whose claim is not the last any more writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Never

from turnlog.events.codec import decode_library_event
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.model.webhook_events import (
    WEBHOOK_FAMILY,
    WebhookAdded,
    WebhookPlace,
    WebhookPlaceEvent,
    build_place_family,
)
from turnlog.events.registry import LibraryEvent
from turnlog.projections.webhooks.webhook_subscriptions import (
    StoredWebhook,
    TenantWebhooks,
    WebhookCommandRecord,
    create_webhooks,
    decide_pause,
    decide_redelivery,
    decide_resumption,
    decide_webhook,
    decide_webhook_removal,
    fold_webhooks,
)
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.idempotent_commands import (
    CommandMetadata,
    IdempotentCommandHandler,
)
from turnlog.services.command_handling.tenant_histories import (
    LibraryParts,
    TenantHistory,
    TenantStates,
    create_last_event_handler,
)


@dataclass(frozen=True, slots=True)
class RecordedPlace:
    """How far a webhook has got, after an event."""

    head: ChainHead
    place: WebhookPlace


def _read_place(recorded: RecordedEvent) -> RecordedPlace:
    event = decode_library_event(recorded)
    if not isinstance(event, WebhookPlaceEvent):
        raise Corrupt(f"LIBRARY, stream sequence {recorded.stream_sequence}", "it has no place")
    return RecordedPlace(recorded.head, event.place)


@dataclass(frozen=True, slots=True)
class WebhookChange:
    """What a command did to a webhook, also where it was carried out before."""

    webhooks: TenantWebhooks
    webhook: StoredWebhook
    repeated_at: str | None = None
    """When it was carried out before, RFC 3339; None if it was not."""


@dataclass
class WebhookService:
    """The webhooks of all tenants, for one process."""

    parts: LibraryParts
    _subscriptions: TenantHistory[TenantWebhooks, WebhookCommandRecord] = field(init=False)
    _places: IdempotentCommandHandler[RecordedPlace, Never] = field(init=False)

    def __post_init__(self) -> None:
        self._subscriptions = TenantHistory(
            parts=self.parts,
            family=WEBHOOK_FAMILY,
            create=create_webhooks,
            states=TenantStates[TenantWebhooks, WebhookCommandRecord](
                create_webhooks, fold_webhooks
            ),
            log_name="webhooks",
        )
        self._places = create_last_event_handler(self.parts, _read_place, "webhooks")

    async def load_webhooks(self, tenant: str) -> TenantWebhooks:
        """Return the webhooks of a tenant as they are now."""
        return await self._subscriptions.load_state(tenant)

    async def add_webhook(self, caller: Caller, added: WebhookAdded) -> WebhookChange:
        """Add a webhook; raises `Refused` for a name that is taken."""
        return await self._change(caller, added.name, lambda state: (decide_webhook(state, added),))

    async def pause_webhook(self, caller: Caller, name: str) -> WebhookChange:
        """Deliver nothing until the webhook is resumed."""

        def decide(state: TenantWebhooks) -> Sequence[LibraryEvent]:
            event = decide_pause(state, name)
            return () if event is None else (event,)

        return await self._change(caller, name, decide)

    async def resume_webhook(self, caller: Caller, name: str) -> WebhookChange:
        """Deliver from where the webhook was."""
        return await self._change(caller, name, lambda state: (decide_resumption(state, name),))

    async def redeliver_webhook(
        self, caller: Caller, name: str, session: str | None
    ) -> WebhookChange:
        """Deliver again what was given up, of one session or of all."""
        return await self._change(
            caller, name, lambda state: (decide_redelivery(state, name, session),)
        )

    async def remove_webhook(self, caller: Caller, name: str) -> WebhookChange:
        """Remove a webhook; returns what it was."""
        before = (await self.load_webhooks(caller.tenant)).by_name.get(name)
        return await self._change(
            caller, name, lambda state: (decide_webhook_removal(state, name),), before
        )

    async def _change(
        self,
        caller: Caller,
        name: str,
        decide: Callable[[TenantWebhooks], Sequence[LibraryEvent]],
        before: StoredWebhook | None = None,
    ) -> WebhookChange:
        """Carry out a command; `before` is what it removes."""
        outcome = await self._subscriptions.handle(
            caller.tenant, decide, caller.metadata, caller.command
        )
        record = outcome.record
        if record is not None and record.webhook is not None:
            return WebhookChange(outcome.state, record.webhook, record.at)
        return WebhookChange(outcome.state, before or outcome.state.get_webhook(name))

    async def load_place(
        self, tenant: str, webhook_id: str, *, leader: bool = False
    ) -> RecordedPlace | None:
        """Return how far a webhook has got, or None before its first delivery."""
        return await self._places.load_state(tenant, build_place_family(webhook_id), leader=leader)

    async def save_place(
        self,
        tenant: str,
        webhook_id: str,
        decide: Callable[[WebhookPlace | None], WebhookPlaceEvent | None],
        metadata: CommandMetadata,
    ) -> WebhookPlace | None:
        """Append what `decide` returns for the latest place; return the place after it.

        What `decide` raises is raised, once the leader has confirmed what it raises it for.
        """

        async def decide_events(state: RecordedPlace | None) -> Sequence[LibraryEvent]:
            event = decide(state.place if state else None)
            return () if event is None else (event,)

        handled = await self._places.handle(
            tenant, build_place_family(webhook_id), decide_events, metadata
        )
        return handled.state.place if handled.state else None
