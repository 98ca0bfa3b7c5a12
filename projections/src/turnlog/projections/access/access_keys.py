"""The keys of an installation, folded from their events, and what each command on them records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Final

from turnlog.events.codec import decode_library_event, format_rfc3339
from turnlog.events.content import Digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.installation.access_events import (
    KeyCreated,
    KeyRevoked,
    KeyRotated,
    KeyUsed,
)
from turnlog.events.registry import Event, LibraryEvent
from turnlog.projections.access.recorded_commands import record_command
from turnlog.projections.blueprint.sent_names import format_sent_name

MAX_KEYS: Final = 1_000
"""Most keys of a tenant that are not revoked: every gateway holds all of them."""

MAX_REVOKED_KEYS: Final = 100
"""How many revoked keys of a tenant are still listed; their events stay on the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessKey:
    """A key as the library of the installation holds it."""

    id: str
    name: str
    tenant: str
    roles: tuple[str, ...]
    user: str | None
    hash: Digest
    expires: datetime | None
    created_at: str
    """When it was created, RFC 3339."""
    rotated_at: str | None = None
    revoked_at: str | None = None
    used_at: str | None = None
    """When it first signed in on the last day that it did, RFC 3339."""
    previous_hash: Digest | None = None
    """SHA-256 of the key before the last rotation."""
    previous_until: datetime | None = None
    """Until when that one signs in."""

    def is_expired(self, now: datetime) -> bool:
        """Return whether it signs in no more because of its age."""
        return self.expires is not None and now >= self.expires

    def is_use_due(self, now: datetime) -> bool:
        """Return whether no use is recorded of the day."""
        return (self.used_at or "")[:10] < format_rfc3339(now)[:10]

    def list_hashes(self, now: datetime) -> Sequence[Digest]:
        """Return the digests of the keys that sign in now; none when it is revoked or expired."""
        if self.revoked_at is not None:
            return ()
        current = () if self.is_expired(now) else (self.hash,)
        if self.previous_hash is None or self.previous_until is None or now >= self.previous_until:
            return current
        return (*current, self.previous_hash)


@dataclass(frozen=True, slots=True)
class KeyCommandRecord:
    """A command that was carried out; the same key with the same body gets the same answer."""

    hash: Digest
    key: AccessKey
    """The key after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessKeys:
    """All keys of an installation."""

    head: ChainHead | None = None
    """The last event; None before the first."""
    by_id: Mapping[str, AccessKey] = field(default_factory=dict[str, AccessKey])
    commands_by_key: Mapping[str, KeyCommandRecord] = field(
        default_factory=dict[str, KeyCommandRecord]
    )
    """Commands by idempotency key."""
    changes_by_tenant: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many events the keys of each tenant have."""

    def get_sequence(self, tenant: str | None) -> int:
        """Return how many events the keys of a tenant, or of all, have.

        All share one history, whose own sequence would tell a tenant what the others do.
        """
        if tenant is not None:
            return self.changes_by_tenant.get(tenant, 0)
        return self.head.sequence if self.head else 0

    def list_keys(self, tenant: str | None) -> Sequence[AccessKey]:
        """Return the keys of a tenant, or of all, by tenant, name and age."""
        found = (each for each in self.by_id.values() if tenant in {None, each.tenant})
        return sorted(found, key=lambda each: (each.tenant, each.name, each.created_at))

    def get_key(self, tenant: str | None, name: str) -> AccessKey:
        """Return the key of a name or an id that is not revoked; raises `Refused` without one."""
        for each in self.list_keys(tenant):
            if each.revoked_at is None and name in {each.name, each.id}:
                return each
        detail = f"there is no key {format_sent_name(name)}"
        fix = "see `turnlog keys list` for those there are"
        raise Refused("unknown-key", detail, field="name", fix=fix)


def create_access_keys(tenant: str) -> AccessKeys:
    """Return the keys of an installation before the first event."""
    del tenant
    return AccessKeys()


def decide_key(before: AccessKeys, created: KeyCreated) -> KeyCreated:
    """Return the event that creates a key; raises `Refused` for a name that is taken."""
    live = [each for each in before.list_keys(created.tenant) if each.revoked_at is None]
    if any(each.name == created.name for each in live):
        detail = f"there is a key {format_sent_name(created.name)} already"
        raise Refused("key-taken", detail, field="name", fix="use another name, or rotate that one")
    if len(live) >= MAX_KEYS:
        detail = f"the tenant has {MAX_KEYS:,} keys, and no more may be"
        raise Refused("too-many-keys", detail, field="name", fix="revoke those not in use")
    return created


def decide_use(before: AccessKeys, key_id: str, now: datetime) -> KeyUsed | None:
    """Return the event that notes a use; None if one is noted of the same day."""
    known = before.by_id.get(key_id)
    if known is None or not known.is_use_due(now):
        return None
    return KeyUsed(id=key_id, at=format_rfc3339(now))


def fold_access_keys(events: Iterable[RecordedEvent], before: AccessKeys) -> AccessKeys:
    """Apply events to the keys, in order."""
    by_id, commands, head = dict(before.by_id), dict(before.commands_by_key), before.head
    changes = dict(before.changes_by_tenant)
    for recorded in events:
        event, head = decode_library_event(recorded), recorded.head
        changed = _apply_event(by_id, event, recorded.envelope.time)
        if changed is not None:
            changes[changed.tenant] = changes.get(changed.tenant, 0) + 1
            record_command(commands, recorded, partial(KeyCommandRecord, key=changed))
    return AccessKeys(head=head, by_id=by_id, commands_by_key=commands, changes_by_tenant=changes)


def _apply_event(
    by_id: dict[str, AccessKey], event: LibraryEvent | Event, time: str
) -> AccessKey | None:
    """Apply an event to the keys; return the one that it is about."""
    if isinstance(event, KeyCreated):
        by_id[event.id] = AccessKey(
            id=event.id,
            name=event.name,
            tenant=event.tenant,
            roles=event.roles,
            user=event.user,
            hash=event.hash,
            expires=_parse_time(event.expires),
            created_at=time,
        )
        return by_id[event.id]
    if not isinstance(event, (KeyRotated, KeyRevoked, KeyUsed)):
        return None
    known = by_id.get(event.id)
    if known is None:
        return None
    by_id[event.id] = _change_key(known, event, time)
    if isinstance(event, KeyRevoked):
        _forget_old_keys(by_id, known.tenant)
    return by_id.get(event.id)


def _change_key(known: AccessKey, event: KeyRotated | KeyRevoked | KeyUsed, time: str) -> AccessKey:
    match event:
        case KeyRotated():
            return replace(
                known,
                hash=event.hash,
                expires=_parse_time(event.expires),
                rotated_at=time,
                previous_hash=known.hash,
                previous_until=_parse_time(event.previous_until),
            )
        case KeyRevoked():
            return replace(known, revoked_at=time)
        case KeyUsed(at=at):
            return replace(known, used_at=at)


def _forget_old_keys(by_id: dict[str, AccessKey], tenant: str) -> None:
    """Drop the oldest revoked keys of a tenant, so that a state stays of bounded size."""
    revoked = [each for each in by_id.values() if each.tenant == tenant and each.revoked_at]
    for each in sorted(revoked, key=lambda each: each.revoked_at or "")[:-MAX_REVOKED_KEYS]:
        del by_id[each.id]


def _parse_time(written: str | None) -> datetime | None:
    return None if written is None else datetime.fromisoformat(written)
