"""When an alert is raised and cleared: a pure function of its rule, its state, a value and a time.

A threshold counts as passed once the value has been above it for as long as the rule asks, and no
more once it has not been for as long. So it changes at most once in that time, however a value
jumps. What is known of it is in the state, which is recorded: who goes on from there needs no
memory of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from turnlog.events.codec import format_rfc3339
from turnlog.events.model.alert_events import (
    MAX_ALERT_SESSIONS,
    AlertCleared,
    AlertEvent,
    AlertRaised,
    AlertReminded,
    AlertRule,
    AlertState,
    AlertThresholdCrossed,
    AlertWarned,
    KnownAlertEvent,
    ThresholdState,
)
from turnlog.projections.alerts.alert_rules import StoredAlertRule

SHORTEST_HOLD: Final = timedelta(seconds=30)
"""Least time between two changes of a threshold where nobody says another."""

AlertStatus = Literal["ok", "warning", "raised"]

ClearReason = Literal["recovered", "rule-changed", "rule-removed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertDecision:
    """What is to be recorded about an alert."""

    kind: type[KnownAlertEvent]
    rule: AlertRule
    name: str
    state: AlertState
    value: float | None = None
    reason: ClearReason | None = None

    @property
    def names_sessions(self) -> bool:
        """Whether its event names the sessions with the highest values."""
        return self.kind in {AlertRaised, AlertWarned, AlertReminded}

    def build_event(self, sessions: tuple[str, ...] = ()) -> KnownAlertEvent:
        """Return the event, with the sessions that have the highest values."""
        return self.kind.model_validate(
            {
                "name": self.name,
                "rule": self.rule,
                "value": self.value,
                "sessions": sessions[:MAX_ALERT_SESSIONS],
                "state": self.state,
                **({} if self.reason is None else {"reason": self.reason}),
            }
        )


def evaluate_alert(
    stored: StoredAlertRule,
    latest: AlertEvent | None,
    value: float | None,
    at: datetime,
    shortest: timedelta = SHORTEST_HOLD,
) -> AlertDecision | None:
    """Return what follows from a value, or None if nothing is to be recorded.

    A threshold does not change twice in `shortest`, whatever the rule says.
    """
    if latest is not None and latest.state.rule > stored.sequence:
        return None  # Another process knows a later rule.
    if latest is not None and latest.state.rule < stored.sequence:
        if cleared := clear_alert(latest, "rule-changed", at):
            return cleared
        latest = None
    before = latest.state if latest else create_alert_state(stored, at)
    after = _StateAdvance(stored.rule, value, at, shortest).advance_state(before)
    kind = _choose_event(stored.rule, before, after, at)
    if kind is None:
        return None
    if kind is AlertReminded:
        after = after.model_copy(update={"reminded_at": format_rfc3339(at)})
    return AlertDecision(
        kind=kind,
        rule=stored.rule,
        name=stored.name,
        state=after,
        value=value,
        reason="recovered" if kind is AlertCleared else None,
    )


def clear_alert(latest: AlertEvent, reason: ClearReason, at: datetime) -> AlertDecision | None:
    """Return how an alert ends whose rule is gone; None if it is neither raised nor warns."""
    if latest.state.status == "ok":
        return None
    time = format_rfc3339(at)
    state = AlertState(since=time, rule=latest.state.rule, above=ThresholdState(since=time))
    return AlertDecision(
        kind=AlertCleared, rule=latest.rule, name=latest.name, state=state, reason=reason
    )


def create_alert_state(stored: StoredAlertRule, at: datetime) -> AlertState:
    """Return the state of a rule before anything was recorded about it."""
    time = format_rfc3339(at)
    warn = None if stored.rule.warn is None else ThresholdState(since=time)
    return AlertState(since=time, rule=stored.sequence, above=ThresholdState(since=time), warn=warn)


@dataclass(frozen=True, slots=True)
class _StateAdvance:
    """What a value changes in the state of an alert."""

    rule: AlertRule
    value: float | None
    at: datetime
    shortest: timedelta

    def advance_state(self, before: AlertState) -> AlertState:
        """Return the state after the value."""
        time = format_rfc3339(self.at)
        above = self._advance_threshold(before.above, self.rule.above)
        warn = None
        if self.rule.warn is not None:
            known = before.warn or ThresholdState(since=time)
            warn = self._advance_threshold(known, self.rule.warn)
        status: AlertStatus = "ok"
        if above.is_passed:
            status = "raised"
        elif warn is not None and warn.is_passed:
            status = "warning"
        changes = {"status": status, "since": time, "reminded_at": None}
        kept = {} if status == before.status else changes
        return before.model_copy(update={"above": above, "warn": warn, **kept})

    def _advance_threshold(self, before: ThresholdState, limit: float) -> ThresholdState:
        if self.value is None and self.rule.no_data == "keep":
            return before
        is_over = self._is_over(limit)
        since = before.since if is_over == before.is_over else format_rfc3339(self.at)
        after = before.model_copy(update={"is_over": is_over, "since": since})
        hold = timedelta(seconds=self.rule.for_seconds)
        if is_over == before.is_passed or self._measure_time(since) < hold:
            return after
        changed = before.changed_at
        if changed and self._measure_time(changed) < self.shortest:
            return after
        changes = {"is_passed": is_over, "changed_at": format_rfc3339(self.at)}
        return after.model_copy(update=changes)

    def _is_over(self, limit: float) -> bool:
        if self.value is not None:
            return self.value > limit
        return self.rule.no_data == "alert" or limit < 0

    def _measure_time(self, since: str) -> timedelta:
        return self.at - datetime.fromisoformat(since)


def _choose_event(
    rule: AlertRule, before: AlertState, after: AlertState, at: datetime
) -> type[KnownAlertEvent] | None:
    if after.status != before.status:
        kinds: dict[str, type[KnownAlertEvent]] = {
            "raised": AlertRaised,
            "warning": AlertWarned,
            "ok": AlertCleared,
        }
        return kinds[after.status]
    if after != before:
        return AlertThresholdCrossed
    if after.status == "raised" and rule.remind_seconds is not None:
        told = after.reminded_at or after.since
        if at - datetime.fromisoformat(told) >= timedelta(seconds=rule.remind_seconds):
            return AlertReminded
    return None
