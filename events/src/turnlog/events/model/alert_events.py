"""Events of alerts: the rules of a tenant, and what became of each of them.

All rules of a tenant share one history in the library. What a rule found has a history of its own
in the stream of alerts; each of its events contains the whole state after it, so that a reader
needs only the last one. No event has a text of a session.
"""

from __future__ import annotations

from typing import ClassVar, Final

from pydantic import Field

from turnlog.events.event_model import EventModel

ALERT_RULES_FAMILY: Final = "alert-rules"
"""The history of the rules of a tenant."""

MAX_ALERT_SESSIONS: Final = 10
"""Sessions that an event of an alert names."""


class AlertScope(EventModel):
    """What a rule measures: what meets all that is given."""

    blueprint: str | None = None
    """The name of the blueprint; null for any."""
    profile: str | None = None
    """The profile of the calls; null for any."""
    kind: str | None = None
    """The kind of the calls; null for any."""
    model: str | None = None
    """The model of the calls; null for any."""
    attributes: dict[str, str] = Field(default_factory=dict)
    """Values of attributes of the sessions, as text."""


class AlertRule(EventModel):
    """What is measured, and which values are too high for how long."""

    measure: str
    """The name of the measure, such as `failed_turns`."""
    where: AlertScope = AlertScope()
    """What is measured."""
    window_seconds: int | None = None
    """Seconds back from now that are measured; null for a figure of now."""
    above: float
    """The alert is raised by a value above this one."""
    warn: float | None = None
    """The alert warns of a value above this one; null for no warning."""
    for_seconds: int = 0
    """Seconds for which a value stays on one side of a threshold before the alert changes."""
    no_data: str = "zero"
    """What counts where there is nothing to measure: `keep` what was, `zero`, or `alert`."""
    remind_seconds: int | None = None
    """Seconds after which a raised alert reminds of itself; null for never."""


class AlertRuleSet(EventModel):
    """A rule is new, or replaces the one of its name."""

    type: ClassVar[str] = "turnlog.alert-rule-set.v1"
    leaf: ClassVar[str] = "set"

    name: str
    """The name of the rule, which no other one has."""
    rule: AlertRule
    """The rule."""


class AlertRuleRemoved(EventModel):
    """A rule is no more."""

    type: ClassVar[str] = "turnlog.alert-rule-removed.v1"
    leaf: ClassVar[str] = "removed"

    name: str
    """The name of the rule."""


class ThresholdState(EventModel):
    """On which side of a threshold a value is, and whether that has lasted."""

    is_over: bool = False
    """Whether the last value was above the threshold."""
    since: str
    """Since when it is on that side, RFC 3339."""
    is_passed: bool = False
    """Whether the threshold counts as passed: that lasts longer than the value is above it."""
    changed_at: str | None = None
    """When that last changed, RFC 3339; null where it never did."""


class AlertState(EventModel):
    """What is known of an alert."""

    status: str = "ok"
    """`ok`, `warning` or `raised`."""
    since: str
    """Since when it has this status, RFC 3339."""
    rule: int
    """The sequence of the event that set the rule."""
    above: ThresholdState
    """The threshold above which the alert is raised."""
    warn: ThresholdState | None = None
    """The threshold above which it warns; null without one."""
    reminded_at: str | None = None
    """When it last reminded of itself, RFC 3339; null where it has not since it was raised."""


class AlertEvent(EventModel):
    """What all events of an alert have in common."""

    name: str
    """The name of the rule."""
    rule: AlertRule
    """The rule by which the value was judged."""
    value: float | None = None
    """What was measured, in the unit of the measure; null where there was nothing to measure."""
    sessions: tuple[str, ...] = ()
    """The sessions with the highest values, the highest first; at most ten."""
    state: AlertState
    """The state after it."""


class AlertThresholdCrossed(AlertEvent):
    """A value crossed a threshold, or is back; the alert changes once that has lasted."""

    type: ClassVar[str] = "turnlog.alert-threshold-crossed.v1"
    leaf: ClassVar[str] = "crossed"


class AlertWarned(AlertEvent):
    """A value is above the lower threshold, and not or no longer above the upper one."""

    type: ClassVar[str] = "turnlog.alert-warned.v1"
    leaf: ClassVar[str] = "warned"


class AlertRaised(AlertEvent):
    """A value is above the threshold, for as long as the rule asks for."""

    type: ClassVar[str] = "turnlog.alert-raised.v1"
    leaf: ClassVar[str] = "raised"


class AlertReminded(AlertEvent):
    """An alert is still raised."""

    type: ClassVar[str] = "turnlog.alert-reminded.v1"
    leaf: ClassVar[str] = "reminded"


class AlertCleared(AlertEvent):
    """An alert is over."""

    type: ClassVar[str] = "turnlog.alert-cleared.v1"
    leaf: ClassVar[str] = "cleared"

    reason: str
    """Why: `recovered`, `rule-changed` or `rule-removed`."""


AlertRuleEvent = AlertRuleSet | AlertRuleRemoved
"""The events of rules that this release writes and reads."""

KnownAlertEvent = AlertThresholdCrossed | AlertWarned | AlertRaised | AlertReminded | AlertCleared
"""The events of alerts that this release writes and reads."""
