"""What policies and holds say of a session: refused until when, and due since when.

What protects more wins: every hold counts, and of floors the one that ends last. Of defaults the
one that says most of the session counts, and among equals the one that erases last: what stays for
too long can still be erased.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from turnlog.events.codec import format_rfc3339
from turnlog.events.errors import Refused
from turnlog.events.model.installation.retention_events import RetentionScope
from turnlog.projections.retention.retention_state import (
    StoredHold,
    StoredPolicy,
    TenantRetention,
)
from turnlog.projections.retention.session_facts import SessionFacts


def covers_session(where: RetentionScope, facts: SessionFacts) -> bool:
    """Return whether a session meets all that a scope gives."""
    return (
        where.blueprint in {None, facts.blueprint}
        and where.session in {None, facts.session}
        and (where.user is None or where.user in facts.users)
        and facts.labels.issuperset(where.labels)
    )


def find_hold(retention: TenantRetention, facts: SessionFacts) -> StoredHold | None:
    """Return the earliest hold on a session; None if there is none."""
    return next(
        (each for each in retention.holds.values() if covers_session(each.where, facts)), None
    )


@dataclass(frozen=True, slots=True)
class RetentionFloor:
    """Nothing of a session is erased until then."""

    policy: StoredPolicy
    until: datetime


def find_floor(retention: TenantRetention, facts: SessionFacts) -> RetentionFloor | None:
    """Return the floor of a session that ends last, even if it has ended; None without one."""
    floors = [
        RetentionFloor(each, facts.used_at + timedelta(seconds=each.keep_seconds))
        for each in retention.policies.values()
        if each.keep_seconds is not None and covers_session(each.where, facts)
    ]
    return max(floors, key=lambda each: each.until, default=None)


def find_default(retention: TenantRetention, facts: SessionFacts) -> StoredPolicy | None:
    """Return the policy by which a session is erased some day; None if it is not."""
    found = [
        each
        for each in retention.policies.values()
        if each.erase_seconds is not None and covers_session(each.where, facts)
    ]
    return max(found, key=_rank_default, default=None)


def _rank_default(policy: StoredPolicy) -> tuple[int, bool, int]:
    """Return what orders policies by how much they say of a session, then by their time."""
    where = policy.where
    return len(where.labels), where.blueprint is not None, policy.erase_seconds or 0


@dataclass(frozen=True, slots=True)
class DueErasure:
    """When a session is to be erased, and by which policy."""

    policy: StoredPolicy
    at: datetime


def find_due_erasure(
    retention: TenantRetention, session: SessionFacts, forks: Sequence[SessionFacts] = ()
) -> DueErasure | None:
    """Return when a session is to be erased; None if never.

    Erasing it erases its forks. So it waits until those are due as well, by their own policies or
    else by that of the session.
    """
    policy = find_default(retention, session)
    if policy is None:
        return None
    times = [session.used_at + _get_age(policy)]
    times += [each.used_at + _get_age(find_default(retention, each) or policy) for each in forks]
    return DueErasure(policy, max(times))


def _get_age(policy: StoredPolicy) -> timedelta:
    return timedelta(seconds=policy.erase_seconds or 0)


def require_erasable_now(retention: TenantRetention, facts: SessionFacts, at: datetime) -> None:
    """Refuse a session that is held, or that a policy keeps for longer."""
    require_unheld(retention, facts)
    floor = find_floor(retention, facts)
    if floor is not None and at < floor.until:
        until = format_rfc3339(floor.until)
        detail = (
            f"the policy `{floor.policy.name}` keeps session {facts.session} until {until}: "
            f"{floor.policy.law}"
        )
        raise Refused("retained", detail, fix=f"erase it after {until}")


def require_unheld(retention: TenantRetention, facts: SessionFacts) -> None:
    """Refuse a session that is held."""
    if (hold := find_hold(retention, facts)) is not None:
        detail = (
            f"the hold `{hold.name}` covers session {facts.session}, placed by {hold.by} at "
            f"{hold.at}: {hold.reason}"
        )
        raise Refused("held", detail, fix="erase it once the hold is released")
