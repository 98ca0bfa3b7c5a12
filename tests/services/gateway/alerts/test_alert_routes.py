"""Alerts over HTTP: rules are set, refused, removed, and shown with their state and history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from tests.services.gateway.gateway_service import RunningGateway, build_alert_service
from turnlog.contract.alert_payloads import AlertMeasureName
from turnlog.projections.alerts.alert_measures import AlertMeasure
from turnlog.services.alerts.alert_evaluator import AlertEvaluator
from turnlog.services.alerts.alert_service import AlertService, RecordedAlert
from turnlog.services.alerts.alert_use_cases import AlertUseCases
from turnlog.services.worker.model.model_types import ModelFailure

FAIL: dict[str, Any] = {"name": "fail", "measure": "failed_turns", "above": 0, "window": "15m"}


def test_contract_names_every_measure() -> None:
    assert get_args(AlertMeasureName) == get_args(AlertMeasure)


@dataclass
class CountingAlerts(AlertService):
    """A service that counts how often the state of an alert is read."""

    reads: int = 0

    async def load_alert(self, tenant: str, name: str) -> RecordedAlert | None:
        self.reads += 1
        return await super().load_alert(tenant, name)


async def apply(gateway: RunningGateway, *rules: Mapping[str, Any], **form: Any) -> Any:  # noqa: ANN401 - JSON of any shape
    answer = await gateway.http.put("/v1/alerts", json={"alerts": [*rules]} | form)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def list_alerts(gateway: RunningGateway) -> dict[str, Any]:
    found = (await gateway.fetch_json("/v1/alerts"))["alerts"]
    return {each["name"]: each for each in found}


async def evaluate(gateway: RunningGateway) -> None:
    """Evaluate once, as a projector does."""
    await AlertEvaluator(
        log=gateway.backend.log,
        store=gateway.store,
        service=build_alert_service(gateway.backend, "/turnlog/projector"),
        clock=lambda: datetime.now(UTC),
    ).evaluate_alerts()


async def test_overview_has_what_is_raised_and_reads_it_again_only_after_an_event(
    idle: RunningGateway,
) -> None:
    lag = {"measure": "projector_lag", "above": -1}
    rules = ({"name": "lag"} | lag, {"name": "warns"} | lag | {"above": 10**6, "warn": -1})
    await apply(idle, *rules, {"name": "quiet", "measure": "near_budget", "above": 1})
    assert (await idle.fetch_json("/v1/overview"))["alerts"] == []
    await evaluate(idle)
    shown = (await idle.fetch_json("/v1/overview"))["alerts"]
    assert [(each["name"], each["status"], each["threshold"]) for each in shown] == [
        ("lag", "raised", -1),
        ("warns", "warning", -1),
    ]
    service = build_alert_service(idle.backend, "/turnlog/gateway")
    counted = CountingAlerts(service.parts, service.alerts)
    use_cases = AlertUseCases(counted)
    for _ in range(5):
        assert len(await use_cases.list_raised(idle.tenant)) == 2
    assert counted.reads == 3, "each alert once"
    await idle.http.delete("/v1/alerts/lag")
    assert [each.name for each in await use_cases.list_raised(idle.tenant)] == ["warns"]


async def test_rules_are_set_changed_and_removed_and_shown_as_they_are_written(
    idle: RunningGateway,
) -> None:
    near = {"name": "near", "measure": "near_budget", "above": 3, "where": {"blueprint": "clerk"}}
    share = {
        "name": "share",
        "measure": "failed_share",
        "above": 0.5,
        "warn": 0.25,
        "for": "5m",
        "no_data": "keep",
        "remind": "4h",
        "where": {"attributes": {"desk": "d-1"}},
    }
    done = await apply(idle, FAIL, near, share)
    assert (done["changed"], done["removed"], done["alerts"]) == (["fail", "near", "share"], [], 3)
    listed = await list_alerts(idle)
    assert [each["status"] for each in listed.values()] == ["ok", "ok", "ok"]
    rule = listed["share"]["rule"]
    assert {name: rule[name] for name in share if name != "where"} == {
        name: value for name, value in share.items() if name != "where"
    }
    assert (rule["window"], rule["where"]["attributes"]) == ("1h", {"desk": "d-1"})
    assert (listed["near"]["rule"]["window"], listed["near"]["unit"]) == (None, "sessions")
    again = await apply(idle, FAIL, share)
    assert (again["changed"], again["alerts"], again["sequence"]) == ([], 3, done["sequence"])
    pruned = await apply(idle, share | {"above": 0.75}, remove_others=True)
    assert (pruned["changed"], pruned["removed"]) == (["share"], ["fail", "near"])
    removed = await idle.http.delete("/v1/alerts/share")
    assert removed.json()["removed"] == ["share"]
    assert await list_alerts(idle) == {}
    for method, path in (("DELETE", ""), ("GET", ""), ("GET", "/history")):
        missing = await idle.http.request(method, f"/v1/alerts/none{path}")
        assert (missing.status_code, missing.json()["code"]) == (404, "unknown-alert")


async def test_request_under_the_same_key_is_carried_out_once(idle: RunningGateway) -> None:
    headers = {"Idempotency-Key": "k-1"}
    form = {"alerts": [FAIL], "remove_others": True}
    first = await idle.http.put("/v1/alerts", json=form, headers=headers)
    await apply(idle, FAIL | {"name": "later"})
    second = await idle.http.put("/v1/alerts", json=form, headers=headers)
    assert (first.json()["changed"], second.json()["changed"]) == (["fail"], ["fail"])
    assert [*await list_alerts(idle)] == ["fail", "later"]
    other = await idle.http.put("/v1/alerts", json={"alerts": []}, headers=headers)
    assert other.json()["code"] == "key-reused"


@pytest.mark.parametrize(
    ("change", "field", "word"),
    [
        pytest.param({"window": "15"}, "alerts.0.window", "such as `10m`", id="no unit"),
        pytest.param({"window": "2d"}, "alerts.0.window", "from 1m to 1d", id="too long"),
        pytest.param({"window": "30s"}, "alerts.0.window", "from 1m to 1d", id="too short"),
        pytest.param({"for": "8d"}, "alerts.0.for", "from 0s to 7d", id="held too long"),
        pytest.param({"remind": "1m"}, "alerts.0.remind", "from 5m to 31d", id="too often"),
        pytest.param({"warn": 0}, "alerts.0.warn", "lower", id="warning above"),
        pytest.param(
            {"where": {"model": "m"}},
            "alerts.0.where.model",
            "`blueprint`, `attributes`",
            id="scope",
        ),
        pytest.param(
            {"measure": "stopped_sessions"}, "alerts.0.window", "leave it out", id="figure of now"
        ),
        pytest.param(
            {"measure": "projector_lag", "window": None, "where": {"blueprint": "b"}},
            "alerts.0.where.blueprint",
            "leave `where` out",
            id="no scope",
        ),
        pytest.param(
            {"where": {"blueprint": "\0"}}, "alerts.0.where.blueprint", "remove", id="bad text"
        ),
    ],
)
async def test_faulty_rule_is_refused_with_its_field_and_the_fix(
    idle: RunningGateway, change: dict[str, Any], field: str, word: str
) -> None:
    answer = await idle.http.put("/v1/alerts", json={"alerts": [FAIL | change]})
    problem = answer.json()
    assert (answer.status_code, problem["field"]) == (422, field), problem
    assert word in problem["fix"]
    assert await list_alerts(idle) == {}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"measure": "moon_phase"}, "measure"),
        ({"above": "1"}, "above"),
        ({"name": "a b"}, "name"),
        ({"no_data": "guess"}, "no_data"),
        ({"windw": "1h"}, "windw"),
        ({"for_": "1m"}, "for_"),
        ({"where": {"session": "s"}}, "session"),
    ],
)
async def test_rule_of_another_form_is_refused_with_its_field(
    idle: RunningGateway, change: dict[str, Any], field: str
) -> None:
    answer = await idle.http.put("/v1/alerts", json={"alerts": [FAIL | change]})
    assert answer.status_code == 422
    assert answer.json()["field"].endswith(f".{field}"), answer.json()


async def test_two_rules_of_one_name_and_too_many_rules_are_refused(idle: RunningGateway) -> None:
    twice = await idle.http.put("/v1/alerts", json={"alerts": [FAIL, FAIL]})
    assert (twice.json()["code"], twice.json()["field"]) == ("faulty-alert", "alerts.1.name")
    await apply(idle, *(FAIL | {"name": f"a{number}"} for number in range(100)))
    more = await idle.http.put("/v1/alerts", json={"alerts": [FAIL]})
    assert more.json()["code"] == "too-many-alerts"


async def test_alert_shows_since_when_it_is_raised_by_which_sessions_and_what_became_of_it(
    stand: RunningGateway,
) -> None:
    await apply(stand, FAIL, FAIL | {"name": "slow", "for": "1h"})
    session = await stand.open_session()
    stand.model.scripts.append([ModelFailure("unauthorised", "HTTP 401")])
    await stand.http.post(f"/v1/sessions/{session}/turns?wait=30", json={"text": "secret words"})
    last = (await stand.fetch_json(f"/v1/sessions/{session}"))["sequence"]
    # The rows have it by then.
    await stand.fetch_json(f"/v1/sessions/{session}/calls", min_sequence=last)
    await evaluate(stand)
    listed = await list_alerts(stand)
    fail, slow = listed["fail"], listed["slow"]
    assert (fail["status"], fail["value"], fail["sessions"]) == ("raised", 1, [session])
    assert (slow["status"], slow["pending"], slow["value"]) == ("ok", True, 1)
    await apply(stand, FAIL | {"above": 7})
    assert (await list_alerts(stand))["fail"]["status"] == "raised", "until it is evaluated"
    await evaluate(stand)
    shown = (await stand.fetch_json("/v1/alerts/fail"))["alert"]
    assert (shown["status"], shown["since"], shown["rule"]["above"]) == ("ok", None, 7)
    history = await stand.fetch_json("/v1/alerts/fail/history")
    named = [(each["event"], each["reason"], each["status"]) for each in history["events"]]
    assert named == [("alert-cleared", "rule-changed", "ok"), ("alert-raised", None, "raised")]
    assert (history["sequence"], history["more"]) == (2, False)
    short = await stand.fetch_json("/v1/alerts/fail/history", limit=1)
    assert (len(short["events"]), short["more"]) == (1, True)
    assert "secret" not in str(history) + str(listed)
