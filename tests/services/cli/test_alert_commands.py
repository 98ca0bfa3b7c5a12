"""Alerts on a terminal: the shipped file is applied, and faults of one are named by their lines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.cli.conftest import RunCommand
from tests.support.processes.blocking_turnlog_up import run_blocking_turnlog_up
from turnlog.contract.alert_payloads import AlertHistory, AlertHistoryEntry, AlertRuleView
from turnlog.projections.alerts.alert_measures import MEASURES
from turnlog.services.cli.alerts.alert_file import read_alert_file
from turnlog.services.cli.alerts.alert_view import format_rule, format_value, render_alert_history
from turnlog.services.cli.console import create_output_console

ROOT = Path(__file__).parents[3]

SHIPPED = ROOT / "deploy/alerts.yaml"


@pytest.fixture(scope="module")
def service_here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A service; yields the option that names its data directory."""
    folder = tmp_path_factory.mktemp("alerts") / "data"
    with run_blocking_turnlog_up(folder):
        yield "--data-dir", str(folder)


def test_shipped_file_is_applied_listed_shown_and_removed(
    turnlog: RunCommand, service_here: tuple[str, str]
) -> None:
    assert "there is no alert" in turnlog("alerts", "list", *service_here).out
    applied = turnlog("alerts", "apply", str(SHIPPED), *service_here)
    assert applied.code == 0, applied.err
    assert "10 alerts" in applied.out
    assert "nothing changed" in turnlog("alerts", "apply", str(SHIPPED), *service_here).out
    rows = turnlog("alerts", "list", *service_here).out.splitlines()
    (row,) = (each.split() for each in rows if each.startswith("turns-fail"))
    assert row == ["turns-fail", "ok", "-", "0.2", "failed_share", "15m", "5m"]
    shown = turnlog("alerts", "show", "turns-fail", *service_here).out
    assert "failed_share, over 15m, above 0.2, warning above 0.05, for 5m" in shown
    rule = turnlog("alerts", "show", "turns-fail", "-o", "json", *service_here).json
    assert rule["alert"]["rule"]["for"] == "5m"
    empty = turnlog("alerts", "history", "turns-fail", *service_here)
    assert (empty.code, "nothing was recorded" in empty.out) == (0, True)
    assert "removed" in turnlog("alerts", "remove", "turns-fail", *service_here).out
    missing = turnlog("alerts", "show", "turns-fail", *service_here)
    assert (missing.code, "unknown-alert" in missing.err) == (3, True)


def test_alerts_that_a_file_does_not_have_are_removed_if_that_is_asked_for(
    turnlog: RunCommand, service_here: tuple[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "alerts.yaml"
    file.write_text("alerts:\n- {name: lag, measure: projector_lag, above: 9}\n")
    assert turnlog("alerts", "apply", str(SHIPPED), *service_here).code == 0
    done = turnlog("alerts", "apply", str(file), "--remove-others", *service_here)
    assert "turns-fail removed" in done.out
    listed = turnlog("alerts", "list", "-o", "json", *service_here).json
    assert [each["name"] for each in listed["alerts"]] == ["lag"]
    turnlog("alerts", "remove", "lag", *service_here)


def test_every_fault_of_a_file_is_named_with_its_line_and_a_fix(
    turnlog: RunCommand, tmp_path: Path
) -> None:
    file = tmp_path / "alerts.yaml"
    file.write_text(
        "alerts:\n"
        "- name: a\n"
        "  measure: faild_turns\n"
        "  above: 1\n"
        "  wran: 2\n"
        "- name: b\n"
        "  measure: cost\n"
    )
    answer = turnlog("alerts", "apply", str(file))
    said = " ".join(answer.err.split())
    assert answer.code == 1
    for known in (
        ":3: alerts.0.measure:",
        "write `failed_turns`",
        ":5: alerts.0.wran:",
        "write `warn`",
        ":6: alerts.1.above:",
        "add it",
    ):
        assert known in said
    file.write_text("alerts:\n- name: a\n  measure: cost\n  above: 1\n  window: 90d\n")
    said = " ".join(turnlog("alerts", "apply", str(file)).err.split())
    assert ":5: alerts.0.window: alert `a`: it is not from 1m to 31d;" in said
    for text in ("", "[]", "alerts: 1", "alert: []", "alerts: []\nmore: 1"):
        file.write_text(text)
        refused = turnlog("alerts", "apply", str(file))
        assert (refused.code, "write a list `alerts`" in refused.err) == (1, True), text


def test_shipped_file_has_a_rule_of_each_measure() -> None:
    assert {each["measure"] for each in read_alert_file(SHIPPED)} == {*MEASURES}


def test_rule_and_values_are_shown_without_what_says_nothing() -> None:
    fields: dict[str, object] = {
        "name": "a",
        "measure": "cost",
        "where": {},
        "above": 1.0,
        "no_data": "zero",
    }
    nothing = dict.fromkeys(("window", "warn", "for", "remind"))
    rule = AlertRuleView.model_validate(fields | nothing)
    assert format_rule(rule) == "cost, above 1"
    where = {"blueprint": "b", "attributes": {"x": "1"}}
    whole = {"where": where, "window": "1h", "warn": 0.5, "for": "5m", "remind": "1d"}
    rule = AlertRuleView.model_validate(fields | whole | {"no_data": "keep"})
    assert format_rule(rule) == (
        "cost of blueprint b, x=1, over 1h, above 1, warning above 0.5, for 5m, no data: keep,"
        " reminding every 1d"
    )
    shown = [format_value(each) for each in (None, 0, 0.123456, 12.5, 1_234.5)]
    assert shown == ["-", "0", "0.1235", "12.5", "1,234"]


def test_texts_of_an_answer_cannot_control_the_terminal() -> None:
    fields: dict[str, object] = {
        "name": "a",
        "measure": "\x1b[2J",
        "where": {},
        "above": 1.0,
        "no_data": "zero",
    }
    nothing = dict.fromkeys(("window", "warn", "for", "remind"))
    rule = AlertRuleView.model_validate(fields | nothing)
    entry = AlertHistoryEntry(
        sequence=1,
        position=1,
        event="alert-raised\x1b[2J",
        at="2026-02-01T00:00:00.000000Z",
        status="raised",
        value=1,
        reason=None,
        sessions=("s\x1b[2J",),
        rule=rule,
    )
    console = create_output_console()
    with console.capture() as captured:
        history = AlertHistory(name="a", sequence=1, events=(entry,), more=True)
        console.print(render_alert_history(history))
    assert "\x1b[2J" not in captured.get()
