"""The policies and holds of a tenant, folded from their events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from turnlog.events.codec import decode_library_event
from turnlog.events.content import Digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.installation.retention_events import (
    HoldPlaced,
    HoldReleased,
    RetentionPolicyRemoved,
    RetentionPolicySet,
    RetentionScope,
)
from turnlog.projections.blueprint.sent_names import format_sent_name

MAX_POLICIES: Final = 100
"""Most policies of a tenant: each is asked for each session that may be due."""

MAX_HOLDS: Final = 1_000
"""Most holds of a tenant that are in force."""

MAX_RELEASED: Final = 100
"""Released holds that are remembered; the log has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPolicy:
    """A policy as the library holds it."""

    name: str
    where: RetentionScope
    keep_seconds: int | None
    law: str | None
    erase_seconds: int | None
    at: str
    """When it was set, RFC 3339."""
    by: str
    """Who set it."""


@dataclass(frozen=True, slots=True)
class HoldRelease:
    """The end of a hold."""

    at: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredHold:
    """A hold as the library holds it."""

    name: str
    where: RetentionScope
    reason: str
    at: str
    """When it was placed, RFC 3339."""
    by: str
    """Who placed it."""
    released: HoldRelease | None = None
    """None while it is in force."""


@dataclass(frozen=True, slots=True)
class RetentionCommandRecord:
    """A command that was carried out; the same key with the same body gets the same answer."""

    hash: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRetention:
    """The policies and holds of a tenant."""

    tenant: str
    head: ChainHead | None = None
    """The last event; None before the first."""
    policies: Mapping[str, StoredPolicy] = field(default_factory=dict[str, StoredPolicy])
    """Policies by name."""
    holds: Mapping[str, StoredHold] = field(default_factory=dict[str, StoredHold])
    """Holds in force, by name."""
    released: tuple[StoredHold, ...] = ()
    """The latest holds that were released, the oldest first."""
    commands_by_key: Mapping[str, RetentionCommandRecord] = field(
        default_factory=dict[str, RetentionCommandRecord]
    )
    """Commands by idempotency key."""

    @property
    def sequence(self) -> int:
        """The sequence of the last event; 0 before the first."""
        return self.head.sequence if self.head else 0

    def get_policy(self, name: str) -> StoredPolicy:
        """Return a policy; raises `Refused` if there is none of this name."""
        found = self.policies.get(name)
        if found is None:
            detail = f"there is no policy {format_sent_name(name)}"
            fix = "see `/v1/retention` for those there are"
            raise Refused("unknown-policy", detail, field="name", fix=fix)
        return found

    def get_hold(self, name: str) -> StoredHold:
        """Return a hold that is in force; raises `Refused` if there is none of this name."""
        found = self.holds.get(name)
        if found is None:
            detail = f"no hold {format_sent_name(name)} is in force"
            fix = "see `/v1/retention` for those there are"
            raise Refused("unknown-hold", detail, field="name", fix=fix)
        return found


def create_retention(tenant: str) -> TenantRetention:
    """Return the policies and holds of a tenant before the first event."""
    return TenantRetention(tenant=tenant)


def decide_policy(
    before: TenantRetention, policy: RetentionPolicySet
) -> Sequence[RetentionPolicySet]:
    """Return the event that sets a policy, or none if it is set already; raises `Refused`."""
    stored = before.policies.get(policy.name)
    if stored is None and len(before.policies) >= MAX_POLICIES:
        detail = f"there are {MAX_POLICIES} policies, and no more may be"
        raise Refused("too-many-policies", detail, field="name", fix="remove one of them")
    return () if stored and _build_policy_event(stored) == policy else (policy,)


def decide_policy_removal(before: TenantRetention, name: str) -> RetentionPolicyRemoved:
    """Return the event that removes a policy; raises `Refused` if there is none."""
    return RetentionPolicyRemoved(name=before.get_policy(name).name)


def decide_hold(before: TenantRetention, hold: HoldPlaced) -> HoldPlaced:
    """Return the event that places a hold; raises `Refused` where its name is taken."""
    if (stored := before.holds.get(hold.name)) is not None:
        detail = f"a hold `{hold.name}` is in force, placed by {stored.by} at {stored.at}"
        raise Refused("hold-exists", detail, field="name", fix="give it another name")
    if len(before.holds) >= MAX_HOLDS:
        detail = f"{MAX_HOLDS} holds are in force, and no more may be"
        raise Refused("too-many-holds", detail, field="name", fix="use one for a label")
    return hold


def decide_hold_release(before: TenantRetention, name: str, reason: str) -> HoldReleased:
    """Return the event that releases a hold; raises `Refused` if none is in force."""
    return HoldReleased(name=before.get_hold(name).name, reason=reason)


def fold_retention(events: Iterable[RecordedEvent], before: TenantRetention) -> TenantRetention:
    """Apply events to the policies and holds, in order."""
    policies, holds, head = dict(before.policies), dict(before.holds), before.head
    released, commands = before.released, dict(before.commands_by_key)
    for recorded in events:
        event, head = decode_library_event(recorded), recorded.head
        match event:
            case RetentionPolicySet():
                policies[event.name] = _store_policy(recorded, event)
            case RetentionPolicyRemoved():
                policies.pop(event.name, None)
            case HoldPlaced():
                holds[event.name] = _store_hold(recorded, event)
            case HoldReleased() if event.name in holds:
                release = HoldRelease(recorded.envelope.time, recorded.envelope.actor, event.reason)
                over = replace(holds.pop(event.name), released=release)
                released = (*released, over)[-MAX_RELEASED:]
            case _:
                continue
        key, digest = recorded.envelope.commandkey, recorded.envelope.commandhash
        if key is not None and digest is not None:
            commands[key] = RetentionCommandRecord(digest)
    return TenantRetention(
        tenant=before.tenant,
        head=head,
        policies=policies,
        holds=holds,
        released=released,
        commands_by_key=commands,
    )


def _store_policy(recorded: RecordedEvent, event: RetentionPolicySet) -> StoredPolicy:
    return StoredPolicy(
        name=event.name,
        where=event.where,
        keep_seconds=event.keep_seconds,
        law=event.law,
        erase_seconds=event.erase_seconds,
        at=recorded.envelope.time,
        by=recorded.envelope.actor,
    )


def _build_policy_event(stored: StoredPolicy) -> RetentionPolicySet:
    return RetentionPolicySet(
        name=stored.name,
        where=stored.where,
        keep_seconds=stored.keep_seconds,
        law=stored.law,
        erase_seconds=stored.erase_seconds,
    )


def _store_hold(recorded: RecordedEvent, event: HoldPlaced) -> StoredHold:
    return StoredHold(
        name=event.name,
        where=event.where,
        reason=event.reason,
        at=recorded.envelope.time,
        by=recorded.envelope.actor,
    )
