"""Which events a webhook gets, and what is delivered of one."""

from __future__ import annotations

import json

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.webhook_events import WebhookFilter
from turnlog.events.registry import format_event_name
from turnlog.projections.webhooks.webhook_subscriptions import StoredWebhook
from turnlog.services.sessions.session_openings import SessionSelection
from turnlog.services.webhooks.delivery.webhook_sender import WebhookMessage


def get_session_selection(chosen: WebhookFilter) -> SessionSelection:
    """Return which sessions a filter selects."""
    return SessionSelection(blueprint=chosen.blueprint, attributes=chosen.attributes)


def has_selected_type(event: RecordedEvent, chosen: WebhookFilter) -> bool:
    """Return whether an event has one of the types of a filter."""
    return not chosen.types or format_event_name(event.envelope.type) in chosen.types


def build_message(webhook: StoredWebhook, event: RecordedEvent, data: bytes) -> WebhookMessage:
    """Return what is delivered of an event; `data` is the event as its readers get it."""
    head = {
        "type": event.envelope.type,
        "timestamp": event.envelope.time,
        "webhook": webhook.name,
        "position": event.stream_sequence,
    }
    begin = json.dumps(head, separators=(",", ":")).removesuffix("}").encode()
    return WebhookMessage(
        id=f"msg_{webhook.id}_{event.stream_sequence}",
        position=event.stream_sequence,
        body=begin + b',"data":' + data + b"}",
    )


def get_position_before(event: RecordedEvent) -> int:
    """Return the stream sequence of the session's event before this one; 0 without one."""
    if event.sequence == 1:
        return 0
    # Events of one batch are adjacent, and do not say so.
    return event.envelope.prevstreamseq or event.stream_sequence - 1
