"""Events of retention: how long a tenant keeps sessions, and which of them nothing is erased of.

All policies and holds of a tenant share one history in the library, so that one read shows whether
any changed. Who set a policy or placed a hold is in the envelope. Nothing of these events is
sealed, so that what the law asks for can be read without a keyring.
"""

from __future__ import annotations

from typing import ClassVar, Final

from turnlog.events.event_model import EventModel

RETENTION_FAMILY: Final = "retention"
"""The history of the policies and holds of a tenant."""


class RetentionScope(EventModel):
    """Which sessions a policy or a hold is for: those that meet all that is given, else all."""

    blueprint: str | None = None
    """The name of the blueprint; null for any."""
    labels: tuple[str, ...] = ()
    """Labels that a session has, all of them."""
    session: str | None = None
    """The id of the session; null for any."""
    user: str | None = None
    """The user whose session it is, or who asked something in it; null for any."""


class RetentionPolicySet(EventModel):
    """A policy is new, or replaces the one of its name."""

    type: ClassVar[str] = "turnlog.retention-policy-set.v1"
    leaf: ClassVar[str] = "policy-set"

    name: str
    """The name of the policy, which no other one has."""
    where: RetentionScope = RetentionScope()
    """The sessions that it is for."""
    keep_seconds: int | None = None
    """Seconds after its last turn for which nothing of a session is erased; null for no such time.
    """
    law: str | None = None
    """Why it is kept for that long: the name of the law, as text."""
    erase_seconds: int | None = None
    """Seconds after its last turn when a session is erased; null for never."""


class RetentionPolicyRemoved(EventModel):
    """A policy is no more."""

    type: ClassVar[str] = "turnlog.retention-policy-removed.v1"
    leaf: ClassVar[str] = "policy-removed"

    name: str
    """The name of the policy."""


class HoldPlaced(EventModel):
    """Nothing of these sessions is erased until the hold is released."""

    type: ClassVar[str] = "turnlog.hold-placed.v1"
    leaf: ClassVar[str] = "hold-placed"

    name: str
    """The name of the hold, which no other one has that is in force."""
    where: RetentionScope = RetentionScope()
    """The sessions that it is for."""
    reason: str
    """Why, never sealed."""


class HoldReleased(EventModel):
    """A hold is over."""

    type: ClassVar[str] = "turnlog.hold-released.v1"
    leaf: ClassVar[str] = "hold-released"

    name: str
    """The name of the hold."""
    reason: str
    """Why, never sealed."""


RetentionEvent = RetentionPolicySet | RetentionPolicyRemoved | HoldPlaced | HoldReleased
"""The events of retention that this release writes and reads."""
