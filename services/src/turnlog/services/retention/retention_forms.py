"""Policies and holds as people write them, checked, and as answers show them.

Every refusal names the field and what to write instead.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from turnlog.contract.installation.retention_payloads import (
    HoldReleaseView,
    HoldScopeForm,
    HoldView,
    PlaceHoldRequest,
    PolicyScopeForm,
    PolicyView,
    RetentionScopeView,
    SetPolicyRequest,
)
from turnlog.events.errors import Refused
from turnlog.events.model.installation.retention_events import (
    HoldPlaced,
    RetentionPolicySet,
    RetentionScope,
)
from turnlog.projections.blueprint.storable_json import check_text
from turnlog.projections.retention.retention_state import StoredHold, StoredPolicy
from turnlog.services.api.written_durations import format_seconds, parse_seconds

LONGEST_AGE: Final = timedelta(days=36_500)
"""A hundred years."""


def create_policy(form: SetPolicyRequest) -> RetentionPolicySet:
    """Return the event that sets a policy; raises `Refused` naming a field."""
    keep = _read_age(form.keep_for, "keep_for")
    erase = _read_age(form.erase_after, "erase_after")
    if keep is None and erase is None:
        detail = "it neither keeps nor erases anything"
        raise _refuse_field(
            "keep_for", detail, "give `keep_for` with `law`, `erase_after`, or both"
        )
    if keep is not None and form.law is None:
        detail = "`keep_for` has no law"
        raise _refuse_field("law", detail, "name the law, as refusals are to say it")
    if keep is None and form.law is not None:
        raise _refuse_field("law", "there is no `keep_for`", "give `keep_for` too, or leave it out")
    if keep is not None and erase is not None and erase < keep:
        detail = f"it is shorter than `keep_for`, which is {form.keep_for}"
        raise _refuse_field("erase_after", detail, f"write {form.keep_for} or longer")
    return RetentionPolicySet(
        name=form.name,
        where=_create_scope(form),
        keep_seconds=keep,
        law=None if form.law is None else check_text(form.law, "law"),
        erase_seconds=erase,
    )


def create_hold(form: PlaceHoldRequest) -> HoldPlaced:
    """Return the event that places a hold; raises `Refused` naming a field."""
    return HoldPlaced(
        name=form.name,
        where=_create_scope(form),
        reason=check_text(form.reason, "reason"),
    )


def _read_age(written: str | None, field: str) -> int | None:
    if written is None:
        return None
    seconds = parse_seconds(written)
    longest = int(LONGEST_AGE.total_seconds())
    if seconds is None or not 1 <= seconds <= longest:
        what = "it is no duration" if seconds is None else "it is not from 1s to 36500d"
        fix = "write a number and `s`, `m`, `h` or `d`, from 1s to 36500d, such as `90d`"
        raise _refuse_field(field, what, fix)
    return seconds


def _create_scope(form: SetPolicyRequest | PlaceHoldRequest) -> RetentionScope:
    where: PolicyScopeForm = form.where
    values = where.model_dump(exclude_defaults=True)
    if not values and not form.all_sessions:
        fix = "say which sessions, or `all_sessions: true` for all of the tenant"
        raise _refuse_field("where", "it is for no session in particular", fix)
    if values and form.all_sessions:
        detail, fix = "it is for some sessions and for all", "leave one of both out"
        raise _refuse_field("all_sessions", detail, fix)
    hold = where if isinstance(where, HoldScopeForm) else None
    return RetentionScope(
        blueprint=_check_optional(where.blueprint, "where.blueprint"),
        labels=tuple(dict.fromkeys(check_text(each, "where.labels") for each in where.labels)),
        session=_check_optional(hold.session, "where.session") if hold else None,
        user=hold.user if hold else None,
    )


def _check_optional(value: str | None, field: str) -> str | None:
    return None if value is None else check_text(value, field)


def _refuse_field(field: str, detail: str, fix: str) -> Refused:
    return Refused("faulty-retention", detail, field=field, fix=fix)


def create_policy_view(stored: StoredPolicy) -> PolicyView:
    """Return a policy in the form in which it is written."""
    return PolicyView(
        name=stored.name,
        where=_create_scope_view(stored.where),
        keep_for=format_age(stored.keep_seconds),
        law=stored.law,
        erase_after=format_age(stored.erase_seconds),
        at=stored.at,
        by=stored.by,
    )


def create_hold_view(stored: StoredHold) -> HoldView:
    """Return a hold as answers show it."""
    over = stored.released
    return HoldView(
        name=stored.name,
        where=_create_scope_view(stored.where),
        reason=stored.reason,
        at=stored.at,
        by=stored.by,
        released=over and HoldReleaseView(at=over.at, by=over.by, reason=over.reason),
    )


def _create_scope_view(where: RetentionScope) -> RetentionScopeView:
    return RetentionScopeView(
        blueprint=where.blueprint, labels=where.labels, session=where.session, user=where.user
    )


def format_age(seconds: int | None) -> str | None:
    """Return a duration as it is written; None for none."""
    return None if seconds is None else format_seconds(timedelta(seconds=seconds))
