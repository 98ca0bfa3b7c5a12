"""The registry of event types: names, classes, and upcasters for older versions.

An event has one name, such as `turn-submitted`, used in code, filters and docs. Its type on the
wire is `turnlog.turn-submitted.v1`. A reader decodes an unregistered type as `UnknownEvent`, so an
old release can read a new log.

A new meaning of an event is a new version with an upcaster. The tests decode golden bytes of every
released version. There is one release so far, so there are no upcasters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, get_args

from pydantic import JsonValue

from turnlog.events.model.alert_events import (
    ALERT_RULES_FAMILY,
    AlertRuleEvent,
    KnownAlertEvent,
)
from turnlog.events.model.call_events import KnownCallEvent
from turnlog.events.model.child_events import ChildEnded, ChildSettled, KnownChildEvent
from turnlog.events.model.installation.access_events import ACCESS_FAMILY, AccessEvent
from turnlog.events.model.installation.read_events import RecordRead
from turnlog.events.model.installation.retention_events import RETENTION_FAMILY, RetentionEvent
from turnlog.events.model.installation.tenant_events import TENANTS_FAMILY, TenantConfigured
from turnlog.events.model.knowledge_events import KNOWLEDGE_FAMILY, KnowledgeEvent
from turnlog.events.model.memory_events import KnownMemoryEvent
from turnlog.events.model.override_events import OVERRIDE_FAMILY, OverrideEvent
from turnlog.events.model.prompt_events import PromptsSnapshotted
from turnlog.events.model.quota_events import (
    BALANCE_FAMILY_FORM,
    MEDIA_LIMIT_FAMILY,
    QUOTA_LIMITS_FAMILY,
    MediaLimitEvent,
    QuotaEdited,
    QuotaEvent,
)
from turnlog.events.model.redaction_events import (
    SOURCE_FAMILY_FORM,
    ErasureEvent,
    RedactionEvent,
    SourceErasureEvent,
)
from turnlog.events.model.retrieval_events import KnownRetrievalEvent
from turnlog.events.model.segment_events import SEGMENT_FAMILY, SegmentEvent
from turnlog.events.model.session_events import KnownSessionEvent, PhaseEntered
from turnlog.events.model.tool_events import ApprovalDecided, KnownToolEvent
from turnlog.events.model.turn_events import KnownTurnEvent, TurnReleased, TurnSubmitted
from turnlog.events.model.webhook_events import (
    PLACE_FAMILY_FORM,
    WEBHOOK_FAMILY,
    WebhookEvent,
    WebhookPlaceEvent,
    WebhookSubscriptionEvent,
)


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An event of a type this release does not know; stored and counted, not interpreted."""

    type: str
    data: dict[str, JsonValue]


KnownEvent = (
    KnownSessionEvent
    | PromptsSnapshotted
    | KnownTurnEvent
    | KnownRetrievalEvent
    | KnownCallEvent
    | KnownToolEvent
    | KnownChildEvent
    | RedactionEvent
    | ErasureEvent
    | PhaseEntered
    | KnownMemoryEvent
)
"""The session events that this release writes and reads."""

ClaimableEvent = TurnSubmitted | TurnReleased | ApprovalDecided | ChildSettled | ChildEnded
"""The events that are delivered to workers, each for the turn that it names."""

Event = KnownEvent | UnknownEvent
"""Any event that this release can find on a log."""

EVENT_TYPES: Final[dict[str, type[KnownEvent]]] = {kind.type: kind for kind in get_args(KnownEvent)}
"""Event class by wire type."""


def format_event_name(wire_type: str) -> str:
    """Return the event name of a wire type: `turnlog.turn-submitted.v1` is `turn-submitted`."""
    return wire_type.removeprefix("turnlog.").rpartition(".v")[0] or wire_type


EVENT_NAMES: Final = tuple(format_event_name(wire_type) for wire_type in EVENT_TYPES)
"""Every event name that this release writes, grouped by family."""

EventData = dict[str, JsonValue]

Upcaster = Callable[[EventData], tuple[str, EventData]]
"""Takes the data of one version and returns the type and data of the next."""

UPCASTERS: Final[Mapping[str, Upcaster]] = {}
"""Upcaster by old wire type."""


def apply_upcasters(
    wire_type: str, data: EventData, upcasters: Mapping[str, Upcaster] = UPCASTERS
) -> tuple[str, EventData]:
    """Return type and data after all registered upcasters were applied."""
    while wire_type in upcasters:
        wire_type, data = upcasters[wire_type](data)
    return wire_type, data


LibraryEvent = (
    SegmentEvent
    | KnowledgeEvent
    | QuotaEvent
    | MediaLimitEvent
    | OverrideEvent
    | WebhookEvent
    | AlertRuleEvent
    | RetentionEvent
    | AccessEvent
    | TenantConfigured
)
"""The library events that this release writes and reads."""

LIBRARY_FAMILIES: Final[Mapping[type[LibraryEvent], str]] = {
    **dict.fromkeys(get_args(SegmentEvent), SEGMENT_FAMILY),
    **dict.fromkeys(get_args(KnowledgeEvent), KNOWLEDGE_FAMILY),
    **dict.fromkeys(get_args(QuotaEvent), BALANCE_FAMILY_FORM),
    QuotaEdited: QUOTA_LIMITS_FAMILY,
    **dict.fromkeys(get_args(MediaLimitEvent), MEDIA_LIMIT_FAMILY),
    **dict.fromkeys(get_args(OverrideEvent), OVERRIDE_FAMILY),
    **dict.fromkeys(get_args(WebhookSubscriptionEvent), WEBHOOK_FAMILY),
    **dict.fromkeys(get_args(WebhookPlaceEvent), PLACE_FAMILY_FORM),
    **dict.fromkeys(get_args(AlertRuleEvent), ALERT_RULES_FAMILY),
    **dict.fromkeys(get_args(RetentionEvent), RETENTION_FAMILY),
    **dict.fromkeys(get_args(AccessEvent), ACCESS_FAMILY),
    TenantConfigured: TENANTS_FAMILY,
    **dict.fromkeys(get_args(SourceErasureEvent), SOURCE_FAMILY_FORM),
}
"""The family whose history an event belongs to, by class."""

LIBRARY_EVENT_TYPES: Final[dict[str, type[LibraryEvent]]] = {
    kind.type: kind for kind in get_args(LibraryEvent)
}
"""Library event class by wire type."""

ALERT_EVENT_TYPES: Final[dict[str, type[KnownAlertEvent]]] = {
    kind.type: kind for kind in get_args(KnownAlertEvent)
}
"""Class of an event of alerts by wire type."""

READ_EVENT_TYPES: Final[dict[str, type[RecordRead]]] = {RecordRead.type: RecordRead}
"""Class of an event of the log of reads by wire type."""

TenantEvent = LibraryEvent | KnownAlertEvent | RecordRead
"""The events of a tenant that belong to no session."""

TENANT_EVENT_TYPES: Final[dict[str, type[TenantEvent]]] = {
    **LIBRARY_EVENT_TYPES,
    **ALERT_EVENT_TYPES,
    **READ_EVENT_TYPES,
}
"""Their classes by wire type."""

AppendableEvent = KnownEvent | TenantEvent
"""The events that this release writes."""
