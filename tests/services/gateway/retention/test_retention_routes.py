"""Policies and holds over HTTP: how they are written, refused, shown, and over."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.services.gateway.gateway_service import (
    RunningGateway,
    build_command_handler,
    build_library_parts,
)
from tests.services.gateway.keys.key_gateway import create_key, start_key_gateway
from tests.services.gateway.keys.key_gateway import send as send_signed
from turnlog.projections.store.read.read_your_writes import ProjectionSignal, wait_until_folded
from turnlog.services.erasures.erasure_service import ErasureService
from turnlog.services.platform.clock import read_clock
from turnlog.services.retention import due_erasures
from turnlog.services.retention.due_erasures import SCHEDULE, DueErasures
from turnlog.services.retention.retention_guard import RetentionGuard
from turnlog.services.retention.retention_service import RetentionService

POLICY: dict[str, Any] = {"name": "p", "where": {"labels": ["chat"]}, "erase_after": "90d"}

HOLD: dict[str, Any] = {"name": "h", "where": {"user": "ann"}, "reason": "case 4711"}


def build_due_erasures(gateway: RunningGateway, ahead: timedelta) -> DueErasures:
    """Build what another gateway erases by, whose clock is ahead."""
    handler = replace(
        build_command_handler(gateway.backend, gateway.store, "/turnlog/test"),
        clock=lambda: read_clock() + ahead,
    )
    guard = RetentionGuard(
        handler, RetentionService(build_library_parts(gateway.backend, "/turnlog/test"))
    )
    erasures = ErasureService(
        command_handler=handler,
        store=gateway.store,
        projection_signal=ProjectionSignal(),
        guard=guard,
    )
    return DueErasures(erasures=erasures, guard=guard)


async def send(gateway: RunningGateway, method: str, path: str, **form: Any) -> Any:  # noqa: ANN401 - JSON of any shape
    answer = await gateway.http.request(method, f"/v1/retention{path}", json=form or None)
    assert answer.is_success, answer.text
    return answer.json()


async def test_policy_is_set_replaced_shown_as_it_is_written_and_removed(
    idle: RunningGateway,
) -> None:
    law = {"keep_for": "3650d", "law": "Commercial Code, section 257"}
    first = await send(idle, "PUT", "/policies", **POLICY)
    again = await send(idle, "PUT", "/policies", **POLICY)
    assert again["sequence"] == first["sequence"], "it costs no event"
    changed = await send(idle, "PUT", "/policies", **(POLICY | {"erase_after": "4000d"} | law))
    assert changed["sequence"] == first["sequence"] + 1
    (shown,) = (await idle.fetch_json("/v1/retention"))["policies"]
    assert {name: shown[name] for name in ("name", "keep_for", "law", "erase_after")} == {
        "name": "p",
        "erase_after": "4000d",
        **law,
    }
    assert shown["where"] == {"blueprint": None, "labels": ["chat"], "session": None, "user": None}
    removed = await send(idle, "DELETE", "/policies/p")
    assert removed["policy"]["name"] == "p"
    assert (await idle.fetch_json("/v1/retention"))["policies"] == []
    missing = await idle.http.delete("/v1/retention/policies/p")
    assert (missing.status_code, missing.json()["code"]) == (404, "unknown-policy")


async def test_hold_is_placed_once_and_released_once(idle: RunningGateway) -> None:
    key = {"Idempotency-Key": "place"}
    for _ in range(2):
        placed = await idle.http.post("/v1/retention/holds", json=HOLD, headers=key)
        assert placed.status_code == 201, placed.text
    taken = await idle.http.post("/v1/retention/holds", json=HOLD)
    assert (taken.status_code, taken.json()["code"]) == (409, "hold-exists")
    over = await send(idle, "POST", "/holds/h/release", reason="it is closed")
    assert over["hold"]["released"]["reason"] == "it is closed"
    missing = await idle.http.post("/v1/retention/holds/h/release", json={"reason": "again"})
    assert (missing.status_code, missing.json()["code"]) == (404, "unknown-hold")
    await send(idle, "POST", "/holds", **HOLD)
    found = await idle.fetch_json("/v1/retention")
    assert [each["name"] for each in found["holds"]] == ["h"]
    assert [each["reason"] for each in found["released"]] == ["case 4711"]
    await send(idle, "POST", "/holds/h/release", reason="over")


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"where": {}}, "faulty-retention", "where"),
        ({"all_sessions": True}, "faulty-retention", "all_sessions"),
        ({"where": {"blueprint": "no-such"}}, "unknown-blueprint", "where.blueprint"),
        ({"where": {"session": "s"}}, "invalid", "where.session"),
        ({"erase_after": "0s"}, "faulty-retention", "erase_after"),
        ({"erase_after": "-1d"}, "faulty-retention", "erase_after"),
        ({"erase_after": "36501d"}, "faulty-retention", "erase_after"),
        ({"erase_after": "9999999d"}, "faulty-retention", "erase_after"),
        ({"erase_after": "a year"}, "faulty-retention", "erase_after"),
        ({"erase_after": 90}, "invalid", "erase_after"),
        ({"erase_after": None}, "faulty-retention", "keep_for"),
        ({"keep_for": "10d"}, "faulty-retention", "law"),
        ({"law": "a law"}, "faulty-retention", "law"),
        ({"keep_for": "91d", "law": "a law"}, "faulty-retention", "erase_after"),
        ({"name": "two words"}, "invalid", "name"),
        ({"name": "a/b"}, "invalid", "name"),
        ({"name": ""}, "invalid", "name"),
    ],
)
async def test_policy_that_cannot_be_is_refused_with_the_field_and_a_fix(
    bare: RunningGateway, change: dict[str, Any], code: str, field: str
) -> None:
    before = (await bare.fetch_json("/v1/retention"))["sequence"]
    refused = await bare.http.put("/v1/retention/policies", json=POLICY | change)
    body = refused.json()
    assert (body["code"], body["field"]) == (code, field), body
    assert body["fix"]
    assert (await bare.fetch_json("/v1/retention"))["sequence"] == before


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"where": {}}, "faulty-retention", "where"),
        ({"all_sessions": True}, "faulty-retention", "all_sessions"),
        ({"where": {"session": "no-such"}}, "unknown-session", "where.session"),
        ({"where": {"blueprint": "no-such"}}, "unknown-blueprint", "where.blueprint"),
        ({"where": {"user": "\u00e9"}}, "invalid", "where.user"),
        ({"reason": ""}, "invalid", "reason"),
        ({"name": "h\n"}, "invalid", "name"),
    ],
)
async def test_hold_that_cannot_be_is_refused_with_the_field_and_a_fix(
    bare: RunningGateway, change: dict[str, Any], code: str, field: str
) -> None:
    refused = await bare.http.post("/v1/retention/holds", json=HOLD | change)
    body = refused.json()
    assert (body["code"], body["field"]) == (code, field), body
    assert body["fix"]


async def test_plain_session_that_is_due_is_named_and_left_alone(idle: RunningGateway) -> None:
    due = build_due_erasures(idle, timedelta(days=91))
    form = {"blueprint": "clerk", "attributes": {"desk": "d-1"}, "labels": ["chat"]}
    opened = (await idle.http.post("/v1/sessions", json=form)).json()
    session, sequence = opened["session"], opened["sequence"]
    place = (idle.store, ProjectionSignal(), idle.tenant, session, sequence)
    assert await wait_until_folded(*place, within=30)
    await send(idle, "PUT", "/policies", **POLICY)
    rounds = [await due.run_round(idle.tenant, SCHEDULE) for _ in range(2)]
    for found in rounds:
        (shown,) = found.sessions
        assert (found.not_sealed, found.erased, found.complete) == (1, 0, True)
        assert (shown.session, shown.policy, shown.outcome) == (session, "p", "not-sealed")
        assert "TURNLOG_SEALING" in (shown.detail or "")
    assert (await due.list_due(idle.tenant)).sessions == rounds[0].sessions
    early = await idle.fetch_json("/v1/retention/due")
    assert (early["examined"], early["sessions"]) == (1, [])
    events = await idle.backend.log.read_last_event(idle.tenant, session)
    assert events is not None
    assert events.sequence == sequence


async def test_round_goes_on_where_the_last_one_stopped(
    idle: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due_erasures, "ROUND_ROWS", 2)
    due = build_due_erasures(idle, timedelta(days=91))
    form = {"blueprint": "clerk", "attributes": {"desk": "d-1"}, "labels": ["chat"]}
    opened = [(await idle.http.post("/v1/sessions", json=form)).json() for _ in range(5)][-1]
    place = (idle.store, ProjectionSignal(), idle.tenant, opened["session"], opened["sequence"])
    assert await wait_until_folded(*place, within=30)
    await send(idle, "PUT", "/policies", **POLICY)
    rounds = [await due.run_round(idle.tenant, SCHEDULE) for _ in range(4)]
    assert [each.examined for each in rounds] == [2, 2, 1, 2]
    seen = {each.session for found in rounds[:3] for each in found.sessions}
    assert len(seen) == 5
    assert (await due.list_due(idle.tenant)).not_sealed == 5


async def test_who_may_erase_takes_no_hold_away_and_an_auditor_may_place_one(
    idle: RunningGateway,
) -> None:
    places = {
        ("GET", "/v1/retention"): (None, {"op", "audit"}),
        ("GET", "/v1/retention/due"): (None, {"op", "audit"}),
        ("PUT", "/v1/retention/policies"): (POLICY, {"op"}),
        ("DELETE", "/v1/retention/policies/p"): (None, {"op"}),
        ("POST", "/v1/retention/due"): (None, {"op"}),
        ("POST", "/v1/retention/holds"): (HOLD, {"op", "audit"}),
        ("POST", "/v1/retention/holds/h/release"): ({"reason": "over"}, {"audit"}),
    }
    async with start_key_gateway(idle) as gateway:
        roles = {"op": "operator", "audit": "auditor", "desk": "caller", "watch": "watcher"}
        keys = {name: await create_key(gateway, name, role) for name, role in roles.items()}
        for (method, path), (form, allowed) in places.items():
            for name, key in keys.items():
                answer = await send_signed(gateway, key, method, path, json=form)
                is_refused = answer.json().get("code") == "not-permitted"
                assert is_refused == (name not in allowed), (name, method, path, answer.text)
        placed = await send_signed(gateway, keys["audit"], "POST", "/v1/retention/holds", json=HOLD)
        assert placed.json()["hold"]["by"] == "key:audit"
