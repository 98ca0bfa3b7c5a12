"""Which events a webhook gets, and what is delivered of one.

A filter by blueprint or attribute asks how the session was opened, which its first event says. A
coordinator's children are opened with the blueprint and the attributes of their parent, so they
are included with it.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.session_events import SessionOpened
from turnlog.events.model.webhook_events import WebhookFilter
from turnlog.events.registry import format_event_name
from turnlog.events.store.ports import EventLog
from turnlog.projections.webhooks.webhook_subscriptions import StoredWebhook
from turnlog.services.webhooks.delivery.webhook_sender import WebhookMessage

MAX_KNOWN_OPENINGS: Final = 10_000
"""Sessions of which a deliverer remembers how they were opened."""


@dataclass(frozen=True, slots=True)
class RecordedOpening:
    """How a session was opened, as far as filters ask."""

    blueprint: str
    attributes: Mapping[str, JsonValue]

    def has_attribute(self, name: str, value: str) -> bool:
        """Return whether an attribute has a value, or one with this form in JSON."""
        if name not in self.attributes:
            return False
        actual = self.attributes[name]
        return value == actual or (
            not isinstance(actual, str) and value == json.dumps(actual, ensure_ascii=False)
        )


@dataclass(frozen=True, slots=True)
class SessionOpenings:
    """How sessions were opened, read once for each and remembered for the latest."""

    log: EventLog
    _known: OrderedDict[tuple[str, str], RecordedOpening | None] = field(
        default_factory=OrderedDict[tuple[str, str], RecordedOpening | None]
    )

    async def has_selected_session(self, event: RecordedEvent, chosen: WebhookFilter) -> bool:
        """Return whether the session of an event is one that the filter selects."""
        if chosen.blueprint is None and not chosen.attributes:
            return True
        opening = await self._find_opening(event)
        return (
            opening is not None
            and chosen.blueprint in {None, opening.blueprint}
            and all(opening.has_attribute(*each) for each in chosen.attributes.items())
        )

    async def _find_opening(self, event: RecordedEvent) -> RecordedOpening | None:
        key = (event.tenant, event.session)
        if key not in self._known:
            first = (
                (event,)
                if event.sequence == 1
                else await self.log.read_next_events(event.tenant, event.session, None, 1)
            )
            self._known[key] = _get_opening(first[0]) if first else None
            while len(self._known) > MAX_KNOWN_OPENINGS:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        return self._known[key]


def _get_opening(first: RecordedEvent) -> RecordedOpening | None:
    opened = first.event
    if not isinstance(opened, SessionOpened):
        return None
    return RecordedOpening(opened.blueprint.name, opened.attributes)


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
