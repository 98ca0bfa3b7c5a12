"""Which policies and holds count for a session, and from when on it may or must be erased."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from turnlog.events.errors import Refused
from turnlog.events.model.installation.retention_events import RetentionScope
from turnlog.projections.retention.retention_rules import (
    covers_session,
    find_default,
    find_due_erasure,
    find_floor,
    require_erasable_now,
)
from turnlog.projections.retention.retention_state import (
    StoredHold,
    StoredPolicy,
    TenantRetention,
)
from turnlog.projections.retention.session_facts import SessionFacts

USED_AT = datetime(2026, 3, 1, tzinfo=UTC)

DAY = 86_400

SESSION = SessionFacts(
    session="s",
    blueprint="billing",
    labels=frozenset({"paid", "invoice"}),
    users=frozenset({"ann"}),
    used_at=USED_AT,
)

OTHER = replace(SESSION, session="t", blueprint="chat", labels=frozenset(), users=frozenset())


def build_policy(
    name: str,
    where: RetentionScope | None = None,
    *,
    keep_days: int | None = None,
    erase_days: int | None = None,
) -> StoredPolicy:
    return StoredPolicy(
        name=name,
        where=where or RetentionScope(),
        keep_seconds=keep_days and keep_days * DAY,
        law=f"law of {name}" if keep_days else None,
        erase_seconds=erase_days and erase_days * DAY,
        at="2026-01-01T00:00:00.000000Z",
        by="operator",
    )


def build_retention(*policies: StoredPolicy, hold: RetentionScope | None = None) -> TenantRetention:
    held = StoredHold(
        name="case", where=hold or RetentionScope(), reason="case 1", at="2026-02-01", by="dora"
    )
    return TenantRetention(
        tenant="t",
        policies={each.name: each for each in policies},
        holds={} if hold is None else {"case": held},
    )


@pytest.mark.parametrize(
    ("where", "covered"),
    [
        (RetentionScope(), (True, True)),
        (RetentionScope(blueprint="billing"), (True, False)),
        (RetentionScope(labels=("invoice", "paid")), (True, False)),
        (RetentionScope(labels=("invoice", "lost")), (False, False)),
        (RetentionScope(blueprint="chat", labels=("invoice",)), (False, False)),
        (RetentionScope(session="t"), (False, True)),
        (RetentionScope(user="ann"), (True, False)),
        (RetentionScope(user="ann", session="t"), (False, False)),
    ],
)
def test_scope_covers_sessions_that_meet_all_of_it(
    where: RetentionScope, covered: tuple[bool, bool]
) -> None:
    assert (covers_session(where, SESSION), covers_session(where, OTHER)) == covered


def test_floor_that_ends_last_counts() -> None:
    retention = build_retention(
        build_policy("short", RetentionScope(labels=("invoice",)), keep_days=10),
        build_policy("long", keep_days=30),
        build_policy("of-others", RetentionScope(blueprint="chat"), keep_days=90),
        build_policy("erases", erase_days=400),
    )
    floor = find_floor(retention, SESSION)
    assert floor is not None
    assert (floor.policy.name, floor.until) == ("long", USED_AT + timedelta(days=30))
    with pytest.raises(Refused) as refused:
        require_erasable_now(retention, SESSION, floor.until - timedelta(seconds=1))
    assert (refused.value.code, "law of long" in refused.value.detail) == ("retained", True)
    assert "2026-03-31T00:00:00.000000Z" in refused.value.detail
    require_erasable_now(retention, SESSION, floor.until)


def test_hold_counts_however_old_the_session_is() -> None:
    retention = build_retention(hold=RetentionScope(user="ann"))
    with pytest.raises(Refused) as refused:
        require_erasable_now(retention, SESSION, USED_AT + timedelta(days=10_000))
    assert refused.value.code == "held"
    assert "`case`" in refused.value.detail
    assert "dora" in refused.value.detail
    assert "case 1" in refused.value.detail
    require_erasable_now(retention, OTHER, USED_AT)


@pytest.mark.parametrize(
    ("policies", "chosen"),
    [
        ((), None),
        ((build_policy("keeps", keep_days=9),), None),
        ((build_policy("all", erase_days=9), build_policy("slow", erase_days=90)), "slow"),
        (
            (
                build_policy("all", erase_days=90),
                build_policy("kind", RetentionScope(blueprint="billing"), erase_days=9),
            ),
            "kind",
        ),
        (
            (
                build_policy("kind", RetentionScope(blueprint="billing"), erase_days=90),
                build_policy("label", RetentionScope(labels=("paid",)), erase_days=9),
            ),
            "label",
        ),
        (
            (
                build_policy("label", RetentionScope(labels=("paid",)), erase_days=9),
                build_policy("two", RetentionScope(labels=("paid", "invoice")), erase_days=3),
            ),
            "two",
        ),
        ((build_policy("other", RetentionScope(blueprint="chat"), erase_days=9),), None),
    ],
)
def test_default_that_says_most_of_a_session_counts_and_among_equals_the_latest(
    policies: tuple[StoredPolicy, ...], chosen: str | None
) -> None:
    for order in (policies, policies[::-1]):
        found = find_default(build_retention(*order), SESSION)
        assert (found and found.name) == chosen


def test_session_is_due_once_its_forks_are() -> None:
    retention = build_retention(
        build_policy("billing", RetentionScope(blueprint="billing"), erase_days=30),
        build_policy("chat", RetentionScope(blueprint="chat"), erase_days=5),
    )
    fork = replace(SESSION, session="f", used_at=USED_AT + timedelta(days=7))
    plain = replace(fork, blueprint="none")
    quick = replace(fork, blueprint="chat")
    for forks, days in (((), 30), ((fork,), 37), ((plain,), 37), ((quick,), 30)):
        due = find_due_erasure(retention, SESSION, forks)
        assert due is not None
        assert (due.policy.name, due.at) == ("billing", USED_AT + timedelta(days=days))
    assert find_due_erasure(retention, plain, (SESSION,)) is None
