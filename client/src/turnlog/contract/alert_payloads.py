"""Requests and responses of alerts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from turnlog.contract.payload_models import RequestModel, ResponseModel

AlertName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$", min_length=1, max_length=64)]

AlertMeasureName = Literal[
    "near_budget",
    "cut_calls",
    "prefix_lost_cost",
    "cost",
    "failed_turns",
    "failed_share",
    "p95_ms",
    "unpriced",
    "stopped_sessions",
    "projector_lag",
]
"""What can be measured."""

AlertStatusName = Literal["ok", "warning", "raised"]

NoDataRule = Literal["keep", "zero", "alert"]
"""What counts where there is nothing to measure."""

AlertValue = Annotated[float, Field(allow_inf_nan=False, ge=-1e15, le=1e15)]

_Word = Annotated[str, Field(min_length=1, max_length=200)]

_Duration = Annotated[str, Field(min_length=1, max_length=20)]


class AlertScopeForm(RequestModel):
    """What a rule measures: what meets all that is given."""

    blueprint: _Word | None = None
    """The name of the blueprint."""
    profile: _Word | None = None
    """The profile of the calls."""
    kind: _Word | None = None
    """The kind of the calls."""
    model: _Word | None = None
    """The model of the calls."""
    attributes: Annotated[
        dict[str, Annotated[str, Field(max_length=1_000)]], Field(max_length=32)
    ] = {}
    """Values of attributes of the sessions, as text."""


class AlertRuleForm(RequestModel):
    """The rule of an alert."""

    name: AlertName
    """Its name."""
    measure: AlertMeasureName
    """What is measured."""
    where: AlertScopeForm = AlertScopeForm()
    """What of it is measured; all by default."""
    window: _Duration | None = None
    """How far back from now is measured, such as `15m`, `1h` or `7d`; an hour by default."""
    above: AlertValue
    """The alert is raised by a value above this one."""
    warn: AlertValue | None = None
    """The alert warns of a value above this one, which is below `above`."""
    for_: Annotated[_Duration | None, Field(alias="for")] = None
    """How long a value stays on one side of a threshold before the alert changes."""
    no_data: NoDataRule = "zero"
    """What counts where there is nothing to measure: `keep` what was, `zero`, or `alert`."""
    remind: _Duration | None = None
    """How often a raised alert reminds of itself; never by default."""


class ApplyAlertsRequest(RequestModel):
    """Sets the rules of alerts."""

    alerts: Annotated[list[AlertRuleForm], Field(max_length=100)]
    """The rules; one of a name that there is replaces it."""
    remove_others: bool = False
    """Whether the rules that are not named here are removed."""


class AlertScopeView(ResponseModel):
    """What a rule measures: what meets all that is given."""

    blueprint: str | None = None
    """The name of the blueprint; null for any."""
    profile: str | None = None
    """The profile of the calls; null for any."""
    kind: str | None = None
    """The kind of the calls; null for any."""
    model: str | None = None
    """The model of the calls; null for any."""
    attributes: dict[str, str] = {}
    """Values of attributes of the sessions, as text."""


class AlertRuleView(ResponseModel):
    """The rule of an alert, as it is written."""

    name: str
    """Its name."""
    measure: str
    """What is measured."""
    where: AlertScopeView
    """What of it is measured."""
    window: str | None
    """How far back from now is measured; null for a figure of now."""
    above: float
    """The alert is raised by a value above this one."""
    warn: float | None
    """The alert warns of a value above this one; null for no warning."""
    for_: Annotated[str | None, Field(alias="for")]
    """How long a value stays on one side of a threshold before the alert changes; null for no time.
    """
    no_data: str
    """What counts where there is nothing to measure."""
    remind: str | None
    """How often a raised alert reminds of itself; null for never."""


class AlertView(ResponseModel):
    """An alert, and its state now."""

    name: str
    """Its name."""
    rule: AlertRuleView
    """Its rule."""
    unit: str
    """What its values are counted in."""
    set_at: str
    """When the rule was set, RFC 3339."""
    status: AlertStatusName
    """Whether it is raised, warns, or neither."""
    since: str | None
    """Since when, RFC 3339; null where nothing was recorded about this rule."""
    pending: bool
    """Whether the value is on the other side of a threshold, and has not been for long enough."""
    value: float | None
    """The value at its last event; null without one, or where there was nothing to measure."""
    sessions: tuple[str, ...]
    """The sessions with the highest values then, the highest first."""
    noted_at: str | None
    """When its last event was recorded, RFC 3339."""


class AlertPage(ResponseModel):
    """The alerts."""

    sequence: int
    """The sequence of the last command on any rule; 0 before the first."""
    alerts: tuple[AlertView, ...]
    """By name."""


class AlertResult(ResponseModel):
    """One alert."""

    sequence: int
    """The sequence of the last command on any rule."""
    alert: AlertView


class AlertChangeResult(ResponseModel):
    """What a command did to the rules of alerts."""

    sequence: int
    """The sequence of the last command on any rule."""
    changed: tuple[str, ...]
    """The rules that are new or different."""
    removed: tuple[str, ...]
    """The rules that were removed."""
    alerts: int
    """How many rules there are now."""


class AlertHistoryEntry(ResponseModel):
    """An event of an alert."""

    sequence: int
    """Its sequence in the history of the alert."""
    position: int
    """Its place in the stream of alerts."""
    event: str
    """Its name, such as `alert-raised`."""
    at: str
    """When it was recorded, RFC 3339."""
    status: AlertStatusName
    """The status after it."""
    value: float | None
    """What was measured; null where there was nothing."""
    reason: str | None
    """Why the alert was cleared; null for another event."""
    sessions: tuple[str, ...]
    """The sessions with the highest values, the highest first."""
    rule: AlertRuleView
    """The rule by which the value was judged."""


class AlertHistory(ResponseModel):
    """What became of an alert."""

    name: str
    """Its name."""
    sequence: int
    """The sequence of its last event; 0 before the first."""
    events: tuple[AlertHistoryEntry, ...]
    """The newest first."""
    more: bool
    """Whether there are earlier ones."""


class RaisedAlert(ResponseModel):
    """An alert that is raised or warns."""

    name: str
    """Its name."""
    status: AlertStatusName
    """Which of both."""
    since: str
    """Since when, RFC 3339."""
    measure: str
    """What is measured."""
    unit: str
    """What its values are counted in."""
    value: float | None
    """The value at its last event; null where there was nothing to measure."""
    threshold: float | None
    """The value above which it is raised, or warns."""
    window: str | None
    """How far back from then was measured; null for a figure of then."""
    sessions: tuple[str, ...]
    """The sessions with the highest values, the highest first."""
