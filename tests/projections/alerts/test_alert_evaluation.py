"""When alerts are raised, warn, remind and are cleared, minute by minute."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.events.model.alert_events import (
    AlertCleared,
    AlertEvent,
    AlertRule,
    AlertThresholdCrossed,
    KnownAlertEvent,
)
from turnlog.events.registry import format_event_name
from turnlog.projections.alerts.alert_evaluation import clear_alert, evaluate_alert
from turnlog.projections.alerts.alert_rules import StoredAlertRule

BEGIN = datetime(2026, 3, 1, 22, tzinfo=UTC)

MINUTE = timedelta(minutes=1)

RULE = AlertRule(measure="failed_turns", window_seconds=3_600, above=5)


@dataclass
class AlertStory:
    """An alert that is evaluated once a minute, and what was recorded about it."""

    rule: AlertRule = RULE
    sequence: int = 1
    at: datetime = BEGIN
    recorded: list[tuple[datetime, KnownAlertEvent]] = field(
        default_factory=list[tuple[datetime, KnownAlertEvent]]
    )

    @property
    def stored(self) -> StoredAlertRule:
        return StoredAlertRule(name="fail", rule=self.rule, sequence=self.sequence, at="")

    @property
    def latest(self) -> AlertEvent | None:
        return self.recorded[-1][1] if self.recorded else None

    def measure(self, *values: float | None) -> list[str]:
        """Evaluate a value a minute; return the names of what was recorded."""
        before = len(self.recorded)
        for value in values:
            decision = evaluate_alert(self.stored, self.latest, value, self.at)
            if decision is not None:
                self.recorded.append((self.at, decision.build_event(("s-1",))))
            self.at += MINUTE
        return [name for name in self.list_names()[before:] if name != "threshold-crossed"]

    def list_names(self) -> list[str]:
        names = (format_event_name(event.type) for _, event in self.recorded)
        return [name.removeprefix("alert-") for name in names]


def create_story(**changes: object) -> AlertStory:
    return AlertStory(RULE.model_copy(update=changes))


def test_alert_is_raised_above_its_threshold_and_cleared_at_it() -> None:
    story = AlertStory()
    assert story.measure(5, 5) == []
    assert story.measure(6, 7) == ["raised"]
    (at, raised) = story.recorded[-1]
    assert (raised.value, raised.sessions, raised.state.status) == (6, ("s-1",), "raised")
    assert datetime.fromisoformat(raised.state.since) == at
    assert story.measure(5) == ["cleared"]
    cleared = story.latest
    assert isinstance(cleared, AlertCleared)
    assert (cleared.reason, cleared.value) == ("recovered", 5)


def test_value_has_to_stay_above_the_threshold_for_as_long_as_the_rule_says() -> None:
    story = create_story(for_seconds=180)
    assert story.measure(6, 6, 0, 6, 6, 6) == []
    assert story.measure(6) == ["raised"]
    assert story.measure(0, 0, 6, 0, 0, 0) == []
    assert story.measure(0) == ["cleared"]
    assert isinstance(story.recorded[0][1], AlertThresholdCrossed)


def test_what_is_pending_is_recorded_so_that_another_process_goes_on_with_it() -> None:
    story = create_story(for_seconds=180)
    story.measure(6, 6)
    after = AlertStory(story.rule, at=story.at, recorded=story.recorded[-1:])
    assert after.measure(6, 6) == ["raised"]


@pytest.mark.parametrize(
    ("no_data", "raised", "cleared"),
    [("keep", [], []), ("zero", [], ["cleared"]), ("alert", ["raised"], [])],
)
def test_missing_data_count_as_the_rule_says(
    no_data: str, raised: list[str], cleared: list[str]
) -> None:
    assert create_story(no_data=no_data).measure(None) == raised
    story = create_story(no_data=no_data)
    story.measure(6)
    assert story.measure(None) == cleared


def test_no_data_do_not_let_time_pass_that_is_kept() -> None:
    story = create_story(no_data="keep", for_seconds=120)
    assert story.measure(6, None, None, None) == []
    assert story.list_names() == ["threshold-crossed"]


def test_zero_may_itself_be_above_a_threshold() -> None:
    assert create_story(above=-1, no_data="zero").measure(None) == ["raised"]


def test_raised_alert_reminds_as_often_as_the_rule_says_until_it_is_cleared() -> None:
    story = create_story(remind_seconds=600)
    assert story.measure(*[6] * 31) == ["raised", "reminded", "reminded", "reminded"]
    reminded = [at for at, _ in story.recorded[1:]]
    assert reminded == [BEGIN + number * 10 * MINUTE for number in (1, 2, 3)]
    assert story.measure(*[0] * 30) == ["cleared"]
    assert story.measure(*[6] * 10) == ["raised"]
    assert story.measure(6) == ["reminded"]


def test_processes_that_measure_in_turn_change_a_threshold_once_in_half_a_minute() -> None:
    story = AlertStory()
    times = [BEGIN + timedelta(seconds=10 * number) for number in range(10)]
    for number, at in enumerate(times):
        story.at = at
        story.measure(6 if number % 2 == 0 else 0)
    statuses = [(at, event.state.status) for at, event in story.recorded]
    changes = [
        at for (at, now), (_, was) in zip(statuses[1:], statuses, strict=False) if now != was
    ]
    for first, second in pairwise([BEGIN, *changes]):
        assert second - first >= timedelta(seconds=30)
    assert changes


def test_alert_without_reminders_is_raised_once() -> None:
    assert AlertStory().measure(*[6] * 500) == ["raised"]


def test_lower_threshold_warns_and_never_reminds() -> None:
    story = create_story(warn=2, remind_seconds=300)
    assert story.measure(*[3] * 20) == ["warned"]
    assert story.measure(6) == ["raised"]
    assert story.measure(3) == ["warned"]
    assert story.measure(2) == ["cleared"]
    assert story.measure(9) == ["raised"]
    assert story.measure(0) == ["cleared"]


def test_value_that_jumps_between_both_thresholds_warns_all_the_same() -> None:
    story = create_story(warn=2, for_seconds=180)
    assert story.measure(3, 6, 3, 6) == ["warned"]
    assert story.measure(3, 6, 3, 6) == []


def test_changed_rule_clears_the_alert_and_begins_anew() -> None:
    story = AlertStory()
    story.measure(6)
    story.rule, story.sequence = RULE.model_copy(update={"above": 3}), 2
    assert story.measure(6) == ["cleared"]
    cleared = story.latest
    assert isinstance(cleared, AlertCleared)
    assert (cleared.reason, cleared.rule) == ("rule-changed", RULE)
    assert story.measure(6) == ["raised"]
    assert story.latest is not None
    assert (story.latest.state.rule, story.latest.rule.above) == (2, 3)


def test_changed_rule_begins_its_time_again() -> None:
    story = create_story(for_seconds=180)
    story.measure(6, 6, 6)
    story.sequence = 2
    assert story.measure(6, 6, 6) == []
    assert story.measure(6) == ["raised"]


def test_process_with_an_earlier_rule_records_nothing() -> None:
    story = AlertStory(sequence=2)
    story.measure(6)
    story.sequence = 1
    assert story.measure(6, 0, 6) == []


def test_removed_rule_clears_what_is_raised_and_nothing_else() -> None:
    story = AlertStory()
    story.measure(6)
    assert story.latest is not None
    cleared = clear_alert(story.latest, "rule-removed", story.at)
    assert cleared is not None
    event = cleared.build_event()
    assert isinstance(event, AlertCleared)
    assert (event.reason, event.state.status) == ("rule-removed", "ok")
    assert clear_alert(event, "rule-removed", story.at) is None


@given(
    values=st.lists(st.none() | st.sampled_from([0.0, 3.0, 9.0]), max_size=60),
    hold=st.sampled_from([0, 30, 120, 300]),
    no_data=st.sampled_from(["keep", "zero", "alert"]),
    warn=st.sampled_from([None, 2.0]),
)
def test_no_threshold_is_passed_twice_within_the_time_of_the_rule(
    values: list[float | None], hold: int, no_data: str, warn: float | None
) -> None:
    story = create_story(for_seconds=hold, no_data=no_data, warn=warn)
    story.measure(*values)
    states = [event.state for _, event in story.recorded]
    for passed in ([each.above for each in states], [each.warn for each in states if each.warn]):
        times = sorted({each.changed_at for each in passed if each.changed_at})
        changes = [datetime.fromisoformat(each) for each in times]
        for first, second in pairwise(changes):
            assert second - first >= timedelta(seconds=hold)
