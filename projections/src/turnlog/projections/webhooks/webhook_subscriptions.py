"""The webhooks of a tenant, folded from their events, and what each command on them records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from turnlog.events.codec import decode_library_event
from turnlog.events.content import Digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.webhook_events import (
    WebhookAdded,
    WebhookFilter,
    WebhookPaused,
    WebhookRedeliveryRequested,
    WebhookRemoved,
    WebhookResumed,
    WebhookSubscriptionEvent,
)
from turnlog.events.registry import Event, LibraryEvent
from turnlog.projections.blueprint.sent_names import format_sent_name

MAX_WEBHOOKS: Final = 50
"""Most webhooks of a tenant: each reads the stream of all sessions for itself."""

MAX_REDELIVERIES: Final = 100
"""The last commands to deliver again that are kept of a webhook; a deliverer takes each at once."""


@dataclass(frozen=True, slots=True)
class RedeliveryCommand:
    """A command to deliver again what was given up."""

    sequence: int
    session: str | None
    """The only session that is meant; None for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWebhook:
    """A webhook as the library holds it."""

    name: str
    id: str
    url: str
    filter: WebhookFilter
    after: int
    """The stream sequence after which its events begin."""
    key: str
    """The sign of the key that its secret is derived from."""
    at: str
    """When it was added, RFC 3339."""
    changed: int
    """The sequence of the last event that is about it."""
    paused: bool = False
    resumed: int = 0
    """The sequence of the last command to resume it; 0 without one."""
    redeliveries: tuple[RedeliveryCommand, ...] = ()
    """The last commands to deliver again what was given up."""


@dataclass(frozen=True, slots=True)
class WebhookCommandRecord:
    """A command that was carried out; the same key with the same body gets the same answer."""

    hash: Digest
    at: str
    """When it was carried out, RFC 3339."""
    webhook: StoredWebhook | None
    """The webhook after it, or the one that it removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantWebhooks:
    """The webhooks of a tenant."""

    tenant: str
    head: ChainHead | None = None
    """The last event; None before the first."""
    by_name: Mapping[str, StoredWebhook] = field(default_factory=dict[str, StoredWebhook])
    commands_by_key: Mapping[str, WebhookCommandRecord] = field(
        default_factory=dict[str, WebhookCommandRecord]
    )
    """Commands by idempotency key."""

    @property
    def sequence(self) -> int:
        """The sequence of the last event; 0 before the first."""
        return self.head.sequence if self.head else 0

    def get_webhook(self, name: str) -> StoredWebhook:
        """Return a webhook; raises `Refused` if there is none of this name."""
        found = self.by_name.get(name)
        if found is None:
            detail = f"there is no webhook {format_sent_name(name)}"
            fix = "see `/v1/webhooks` for those there are"
            raise Refused("unknown-webhook", detail, field="name", fix=fix)
        return found


def create_webhooks(tenant: str) -> TenantWebhooks:
    """Return the webhooks of a tenant before the first event."""
    return TenantWebhooks(tenant=tenant)


def decide_webhook(before: TenantWebhooks, added: WebhookAdded) -> WebhookAdded:
    """Return the event that adds a webhook; raises `Refused` for a name that is taken."""
    if added.name in before.by_name:
        detail = f"there is a webhook {format_sent_name(added.name)} already"
        fix = "use another name, or remove that one"
        raise Refused("webhook-taken", detail, field="name", fix=fix)
    if len(before.by_name) >= MAX_WEBHOOKS:
        detail = f"there are {MAX_WEBHOOKS} webhooks, and no more may be"
        raise Refused("too-many-webhooks", detail, field="name", fix="remove one of them")
    return added


def decide_pause(before: TenantWebhooks, name: str) -> WebhookPaused | None:
    """Return the event that pauses a webhook; None if it is paused. Raises `Refused`."""
    found = before.get_webhook(name)
    return None if found.paused else WebhookPaused(name=name, id=found.id)


def decide_resumption(before: TenantWebhooks, name: str) -> WebhookResumed:
    """Return the event that resumes a webhook, also one that a deliverer stopped by itself."""
    return WebhookResumed(name=name, id=before.get_webhook(name).id)


def decide_redelivery(
    before: TenantWebhooks, name: str, session: str | None
) -> WebhookRedeliveryRequested:
    """Return the event that has deliveries repeated which were given up; raises `Refused`."""
    return WebhookRedeliveryRequested(name=name, id=before.get_webhook(name).id, session=session)


def decide_webhook_removal(before: TenantWebhooks, name: str) -> WebhookRemoved:
    """Return the event that removes a webhook; raises `Refused` if there is none."""
    return WebhookRemoved(name=name, id=before.get_webhook(name).id)


def fold_webhooks(events: Iterable[RecordedEvent], before: TenantWebhooks) -> TenantWebhooks:
    """Apply events to the webhooks, in order."""
    by_name, commands, head = dict(before.by_name), dict(before.commands_by_key), before.head
    for recorded in events:
        event, head = decode_library_event(recorded), recorded.head
        changed = _apply_event(by_name, event, recorded)
        key, digest = recorded.envelope.commandkey, recorded.envelope.commandhash
        if key is not None and digest is not None:
            commands[key] = WebhookCommandRecord(digest, recorded.envelope.time, changed)
    return TenantWebhooks(
        tenant=before.tenant, head=head, by_name=by_name, commands_by_key=commands
    )


def _apply_event(
    by_name: dict[str, StoredWebhook], event: LibraryEvent | Event, recorded: RecordedEvent
) -> StoredWebhook | None:
    """Apply an event to the webhooks; return the one that it is about."""
    if isinstance(event, WebhookAdded):
        by_name[event.name] = StoredWebhook(
            name=event.name,
            id=event.id,
            url=event.url,
            filter=event.filter,
            after=event.after,
            key=event.key,
            at=recorded.envelope.time,
            changed=recorded.sequence,
        )
        return by_name[event.name]
    if not isinstance(event, WebhookSubscriptionEvent):
        return None
    found = by_name.get(event.name)
    if found is None or found.id != event.id:
        return None
    if isinstance(event, WebhookRemoved):
        return by_name.pop(event.name)
    by_name[event.name] = _change_webhook(found, event, recorded.sequence)
    return by_name[event.name]


def _change_webhook(
    found: StoredWebhook,
    event: WebhookPaused | WebhookResumed | WebhookRedeliveryRequested,
    sequence: int,
) -> StoredWebhook:
    match event:
        case WebhookPaused():
            return replace(found, changed=sequence, paused=True)
        case WebhookResumed():
            return replace(found, changed=sequence, paused=False, resumed=sequence)
        case WebhookRedeliveryRequested(session=session):
            known = (*found.redeliveries, RedeliveryCommand(sequence, session))
            return replace(found, changed=sequence, redeliveries=known[-MAX_REDELIVERIES:])
