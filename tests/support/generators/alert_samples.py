"""One event of every type of alerts, with every field filled."""

from __future__ import annotations

from collections.abc import Mapping

from turnlog.events.model.alert_events import (
    AlertCleared,
    AlertRaised,
    AlertReminded,
    AlertRule,
    AlertRuleRemoved,
    AlertRuleSet,
    AlertScope,
    AlertState,
    AlertThresholdCrossed,
    AlertWarned,
    KnownAlertEvent,
    ThresholdState,
)
from turnlog.events.registry import LibraryEvent

SAMPLE_RULE = AlertRule(
    measure="failed_share",
    where=AlertScope(
        blueprint="support",
        profile="quick",
        kind="reply",
        model="openai/gpt-4o-mini",
        attributes={"locale": "lt"},
    ),
    window_seconds=900,
    above=0.25,
    warn=0.1,
    for_seconds=300,
    no_data="keep",
    remind_seconds=14_400,
)

SAMPLE_STATE = AlertState(
    status="raised",
    since="2026-02-01T00:10:00.000000Z",
    rule=7,
    above=ThresholdState(
        is_over=True,
        since="2026-02-01T00:05:00.000000Z",
        is_passed=True,
        changed_at="2026-02-01T00:10:00.000000Z",
    ),
    warn=ThresholdState(
        is_over=True,
        since="2026-02-01T00:04:00.000000Z",
        is_passed=True,
        changed_at="2026-02-01T00:09:00.000000Z",
    ),
    reminded_at="2026-02-01T04:10:00.000000Z",
)


def build_alert_rule_samples() -> Mapping[str, LibraryEvent]:
    """Return one event of every type of rules."""
    return {
        "alert-rule-set": AlertRuleSet(name="turns-fail", rule=SAMPLE_RULE),
        "alert-rule-removed": AlertRuleRemoved(name="turns-fail"),
    }


def build_alert_samples() -> Mapping[str, KnownAlertEvent]:
    """Return one event of every type of the stream of alerts."""
    fields = {
        "name": "turns-fail",
        "rule": SAMPLE_RULE,
        "value": 0.5,
        "sessions": ("s-1", "s-2"),
        "state": SAMPLE_STATE,
    }
    return {
        "alert-threshold-crossed": AlertThresholdCrossed.model_validate(fields),
        "alert-warned": AlertWarned.model_validate(fields),
        "alert-raised": AlertRaised.model_validate(fields),
        "alert-reminded": AlertReminded.model_validate(fields),
        "alert-cleared": AlertCleared.model_validate({**fields, "reason": "recovered"}),
    }
