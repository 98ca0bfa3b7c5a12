"""Requests and responses of retention: policies, holds, and which sessions are due."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from turnlog.contract.payload_models import RequestModel, ResponseModel
from turnlog.contract.request_values import USER_NAME_PATTERN, CommandReason, SessionLabels

RetentionName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$", min_length=1, max_length=64)]

RetentionOutcome = Literal["due", "erased", "begun", "waiting", "held", "retained", "not-sealed"]
"""What becomes of a session that is due: `due` it will be erased, `waiting` for an open turn or for
a fork that is not due, `held` and `retained` by what protects it, `not-sealed` it cannot be erased.
"""

_Word = Annotated[str, Field(min_length=1, max_length=200)]

_Duration = Annotated[str, Field(min_length=1, max_length=20)]


class PolicyScopeForm(RequestModel):
    """The sessions that a policy is for: those that meet all that is given."""

    blueprint: _Word | None = None
    """The name of the blueprint."""
    labels: SessionLabels = []
    """Labels that a session has, all of them."""


class HoldScopeForm(PolicyScopeForm):
    """The sessions that a hold is for: those that meet all that is given."""

    session: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """The id of the session."""
    user: Annotated[str, Field(pattern=USER_NAME_PATTERN)] | None = None
    """The user whose session it is, or who asked something in it."""


class SetPolicyRequest(RequestModel):
    """Sets a policy: how long sessions are kept, and when they are erased."""

    name: RetentionName
    """Its name; a policy that has it is replaced."""
    where: PolicyScopeForm = PolicyScopeForm()
    """The sessions that it is for."""
    all_sessions: bool = False
    """Whether it is for all sessions of the tenant; then `where` is left out."""
    keep_for: _Duration | None = None
    """How long after its last turn nothing of a session is erased, such as `3650d`."""
    law: Annotated[str, Field(min_length=1, max_length=1_000)] | None = None
    """Why: the name of the law, as refusals say it. It goes with `keep_for`."""
    erase_after: _Duration | None = None
    """How long after its last turn a session is erased, such as `90d`."""


class PlaceHoldRequest(RequestModel):
    """Places a hold: nothing of these sessions is erased until it is released."""

    name: RetentionName
    """Its name, which no other hold has that is in force."""
    where: HoldScopeForm = HoldScopeForm()
    """The sessions that it is for."""
    all_sessions: bool = False
    """Whether it is for all sessions of the tenant; then `where` is left out."""
    reason: CommandReason
    """Why, recorded for good and never sealed: name no person."""


class ReleaseHoldRequest(RequestModel):
    """Releases a hold."""

    reason: CommandReason
    """Why, recorded for good and never sealed: name no person."""


class RetentionScopeView(ResponseModel):
    """The sessions that a policy or a hold is for: those that meet all that is given, else all."""

    blueprint: str | None
    """The name of the blueprint; null for any."""
    labels: tuple[str, ...]
    """Labels that a session has, all of them."""
    session: str | None
    """The id of the session; null for any."""
    user: str | None
    """The user whose session it is, or who asked something in it; null for any."""


class PolicyView(ResponseModel):
    """A policy."""

    name: str
    """Its name."""
    where: RetentionScopeView
    """The sessions that it is for."""
    keep_for: str | None
    """How long after its last turn nothing of a session is erased; null for no such time."""
    law: str | None
    """Why; null without `keep_for`."""
    erase_after: str | None
    """How long after its last turn a session is erased; null for never."""
    at: str
    """When it was set, RFC 3339."""
    by: str
    """Who set it."""


class HoldReleaseView(ResponseModel):
    """The end of a hold."""

    at: str
    """When it was released, RFC 3339."""
    by: str
    """Who released it."""
    reason: str
    """Why."""


class HoldView(ResponseModel):
    """A hold."""

    name: str
    """Its name."""
    where: RetentionScopeView
    """The sessions that it is for."""
    reason: str
    """Why it was placed."""
    at: str
    """When it was placed, RFC 3339."""
    by: str
    """Who placed it."""
    released: HoldReleaseView | None
    """When, by whom and why it was released; null while it is in force."""


class RetentionView(ResponseModel):
    """The policies and holds of a tenant."""

    sequence: int
    """The sequence of the last change; 0 before the first."""
    policies: tuple[PolicyView, ...]
    """The policies, by name."""
    holds: tuple[HoldView, ...]
    """The holds in force, by name."""
    released: tuple[HoldView, ...]
    """The latest holds that were released, the newest first."""


class PolicyResult(ResponseModel):
    """A policy that was set or removed."""

    sequence: int
    """The sequence of the last change."""
    policy: PolicyView
    """The policy."""
    sessions: int
    """How many sessions it is for now, as far as the read models know."""


class HoldResult(ResponseModel):
    """A hold that was placed or released."""

    sequence: int
    """The sequence of the last change."""
    hold: HoldView
    """The hold."""
    sessions: int
    """How many sessions it is for now, as far as the read models know."""
    erasing: tuple[str, ...] | None
    """Sessions of these of which an erasure has begun that has not ended. Keys that are not removed
    yet when the hold is placed stay until it is released. Null where the read models are behind, so
    that nobody knows.
    """


class DueSessionView(ResponseModel):
    """A session that a policy says to erase by now."""

    session: str
    """Its id."""
    policy: str
    """The name of the policy."""
    due: str
    """Since when, RFC 3339."""
    outcome: RetentionOutcome
    """What becomes of it."""
    detail: str | None
    """What protects it, or what it waits for; null where nothing does."""


class DueSessions(ResponseModel):
    """The sessions that are due, or those that were erased by now."""

    at: str
    """The time by which they are due, RFC 3339."""
    examined: int
    """How many sessions were looked at."""
    complete: bool
    """Whether those are all; a round of a schedule goes on behind them."""
    erased: int
    """How many were erased, or are about to be."""
    due: int
    """How many are left to be erased."""
    waiting: int
    """How many wait for an open turn or a fork."""
    held: int
    """How many a hold keeps."""
    retained: int
    """How many the law of a policy keeps."""
    not_sealed: int
    """How many cannot be erased, since they are not sealed."""
    sessions: tuple[DueSessionView, ...]
    """The first of them, the oldest first."""
