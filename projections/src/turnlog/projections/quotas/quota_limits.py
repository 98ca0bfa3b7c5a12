"""The limits of a tenant's users, folded from their events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from turnlog.events.codec import decode_library_event
from turnlog.events.content import Digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.model.quota_events import QuotaEdited, QuotaLimits

UNLIMITED: Final = QuotaLimits()
"""The limits of a user without a quota."""


@dataclass(frozen=True, slots=True)
class QuotaCommandRecord:
    """An edit that was carried out; the same key with the same body gets the same answer."""

    hash: Digest


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """The limits of all users of a tenant."""

    tenant: str
    head: ChainHead | None = None
    """The last event; None before the first."""
    limits_by_user: Mapping[str, QuotaLimits] = field(default_factory=dict[str, QuotaLimits])
    """Only users who have a limit."""
    commands_by_key: Mapping[str, QuotaCommandRecord] = field(
        default_factory=dict[str, QuotaCommandRecord]
    )
    """Edits by idempotency key."""

    @property
    def sequence(self) -> int:
        """The sequence of the last event; 0 before the first."""
        return self.head.sequence if self.head else 0

    def get_limits(self, user: str) -> QuotaLimits:
        """Return the limits of a user."""
        return self.limits_by_user.get(user, UNLIMITED)


def fold_limits(events: Iterable[RecordedEvent], before: TenantLimits) -> TenantLimits:
    """Apply events to the limits, in order."""
    limits, commands = dict(before.limits_by_user), dict(before.commands_by_key)
    head = before.head
    for recorded in events:
        event, head = decode_library_event(recorded), recorded.head
        if isinstance(event, QuotaEdited):
            limits.pop(event.user, None)
            if event.limits != UNLIMITED:
                limits[event.user] = event.limits
        key, digest = recorded.envelope.commandkey, recorded.envelope.commandhash
        if key is not None and digest is not None:
            commands[key] = QuotaCommandRecord(digest)
    return TenantLimits(before.tenant, head, limits, commands)
