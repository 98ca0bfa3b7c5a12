"""Tenants over HTTP: who sees and changes their settings, and which models they may use."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from tests.services.gateway.gateway_service import (
    MODEL,
    RunningGateway,
    build_worker,
    run_worker,
)
from tests.services.gateway.keys.key_gateway import (
    CLERK,
    ROOT,
    ROOT_KEY,
    create_key,
    open_session,
    send,
    start_key_gateway,
)
from tests.support.sessions.flat_pricing import create_flat_pricing
from turnlog.client import AsyncTurnlogClient
from turnlog.events.async_tasks import run_tasks
from turnlog.projections.store.read.read_your_writes import wait_until_folded

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def configure(gateway: RunningGateway, tenant: str, **changes: object) -> Any:  # noqa: ANN401
    """Change the settings of a tenant by the root key, and return the answer."""
    answer = await gateway.http.patch(f"/v1/tenants/{tenant}", json=changes, headers=ROOT)
    assert answer.status_code == 200, answer.text
    return answer.json()["tenant"]


async def create_tenant(gateway: RunningGateway, *roles: str) -> tuple[str, str]:
    """Create a key of a new tenant; return the tenant and the key."""
    tenant = f"t-{uuid.uuid4().hex[:8]}"
    return tenant, await create_key(gateway, "app", *(roles or ("caller",)), tenant=tenant)


async def test_a_tenant_without_settings_may_use_everything(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        tenant, key = await create_tenant(gateway)
        await open_session(gateway, key)
        shown = await gateway.http.get(f"/v1/tenants/{tenant}", headers=ROOT)
        assert shown.json()["tenant"] == {
            **dict.fromkeys(shown.json()["tenant"], None),
            "tenant": tenant,
            "keys": 1,
            "provider_keys": {},
        }


async def test_clients_change_and_read_settings(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        tenant, key = await create_tenant(gateway, "administrator")
        async with (
            AsyncTurnlogClient(gateway.address, key=ROOT_KEY) as root,
            AsyncTurnlogClient(gateway.address, key=key) as own,
        ):
            await root.configure_tenant(tenant, max_open_turns=3, max_waiting_turns=4)
            left = await root.configure_tenant(tenant, max_waiting_turns=None)
            assert (left.tenant.max_open_turns, left.tenant.max_waiting_turns) == (3, None)
            assert (await own.fetch_tenant(tenant)).tenant.max_open_turns == 3
            assert [each.tenant for each in (await own.list_tenants()).tenants] == [tenant]
            assert tenant in {each.tenant for each in (await root.list_tenants()).tenants}


async def test_settings_change_alone_and_are_removed_by_null(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        tenant, _ = await create_tenant(gateway)
        changed = await configure(gateway, tenant, models=["openai/*"])
        assert (changed["models"], changed["changed_by"]) == (["openai/*"], "key:root")
        assert (await configure(gateway, tenant, models=None))["models"] is None
        assert (await configure(gateway, tenant, models=[]))["models"] == []
        empty = await gateway.http.patch(f"/v1/tenants/{tenant}", json={}, headers=ROOT)
        assert (empty.status_code, empty.json()["code"]) == (422, "invalid")
        for faulty in ("", "a b", "a*b", "gpt\n", "é"):
            answer = await gateway.http.patch(
                f"/v1/tenants/{tenant}", json={"models": [faulty]}, headers=ROOT
            )
            assert answer.status_code == 422, faulty


async def test_the_same_command_twice_is_carried_out_once(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        tenant, _ = await create_tenant(gateway)
        headers = {**ROOT, "Idempotency-Key": uuid.uuid4().hex}
        path, first = f"/v1/tenants/{tenant}", {"models": ["a"]}
        once = await gateway.http.patch(path, json=first, headers=headers)
        await configure(gateway, tenant, models=["b"])
        again = await gateway.http.patch(path, json=first, headers=headers)
        assert again.json()["tenant"] == once.json()["tenant"]
        now = await gateway.http.get(path, headers=ROOT)
        assert now.json()["tenant"]["models"] == ["b"]


async def test_a_tenant_sees_itself_and_changes_nothing(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        other, _ = await create_tenant(gateway)
        tenant, boss = await create_tenant(gateway, "administrator")
        listed = await send(gateway, boss, "GET", "/v1/tenants")
        assert [each["tenant"] for each in listed.json()["tenants"]] == [tenant]
        await configure(gateway, other, max_open_turns=7)
        again = await send(gateway, boss, "GET", "/v1/tenants")
        assert again.text == listed.text, "what others do is not to be seen, nor how often"
        everything = await gateway.http.get("/v1/tenants", headers=ROOT)
        assert {tenant, other} <= {each["tenant"] for each in everything.json()["tenants"]}
        foreign = await send(gateway, boss, "GET", f"/v1/tenants/{other}")
        nobodys = await send(gateway, boss, "GET", "/v1/tenants/t-00000000")
        assert (foreign.status_code, foreign.json()["code"]) == (404, "unknown-tenant")
        assert foreign.text.replace(other, "t-00000000") == nobodys.text
        for each in (tenant, other):
            answer = await send(gateway, boss, "PATCH", f"/v1/tenants/{each}", json={"models": []})
            assert (answer.status_code, answer.json()["code"]) == (403, "not-permitted")
            assert "root key" in answer.json()["fix"]


async def test_opening_is_refused_whose_profile_names_another_model(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        tenant, key = await create_tenant(gateway)
        await configure(gateway, tenant, models=[MODEL])
        await open_session(gateway, key)
        body = CLERK | {"profile": "terse"}
        refused = (await send(gateway, key, "POST", "/v1/sessions", json=body)).json()
        assert (refused["code"], refused["field"]) == ("model-not-allowed", "profiles.terse.model")
        assert "openai/gpt-terse" in refused["detail"]
        assert "turnlog tenants set" in refused["fix"]
        assert tenant not in str(refused)
        _, others = await create_tenant(gateway)
        await open_session(gateway, others, profile="terse")


async def test_a_default_model_is_checked_by_its_name(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        tenant, key = await create_tenant(gateway)
        await configure(gateway, tenant, models=["default", "openai/gpt-ters", "puppet/on"])
        for profile in ("chat", "terse"):
            body = CLERK | {"profile": profile}
            refused = await send(gateway, key, "POST", "/v1/sessions", json=body)
            assert refused.json()["code"] == "model-not-allowed", profile


async def test_an_open_session_takes_no_turn_and_no_switch_beyond(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        tenant, key = await create_tenant(gateway)
        path = f"/v1/sessions/{await open_session(gateway, key)}"
        await configure(gateway, tenant, models=["puppet/*"])
        switched = await send(gateway, key, "POST", f"{path}/profile", json={"profile": "terse"})
        assert switched.json()["code"] == "model-not-allowed"
        named = await send(
            gateway, key, "POST", f"{path}/profile", json={"model": "openai/gpt-terse"}
        )
        assert (named.json()["code"], named.json()["field"]) == ("model-not-allowed", "model")
        taken = await send(gateway, key, "POST", f"{path}/turns", json={"text": "Hi"})
        assert taken.status_code == 202, taken.text
        await configure(gateway, tenant, models=[])
        refused = await send(gateway, key, "POST", f"{path}/turns", json={"text": "Hi"})
        assert (refused.status_code, refused.json()["code"]) == (422, "model-not-allowed")
        assert refused.json()["field"] == "profiles.chat.model"
        assert "allowed: none" in refused.json()["fix"]


async def test_worker_ends_a_call_that_settings_forbid_since_its_turn(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        tenant, key = await create_tenant(gateway)
        path = f"/v1/sessions/{await open_session(gateway, key)}"
        taken = await send(gateway, key, "POST", f"{path}/turns", json={"text": "Hi"})
        assert taken.status_code == 202, taken.text
        await configure(gateway, tenant, models=["openai/*"])
        asked = len(bare.model.requests)
        pricing = create_flat_pricing("puppet-1")
        worker = build_worker(bare.backend, bare.store, bare.model, pricing)
        async with run_tasks(run_worker(bare.backend, tenant, worker, asyncio.Queue())):
            watched = await send(gateway, key, "GET", f"{path}/turns/1/stream", timeout=30)
        assert "event: failed" in watched.text
        assert len(bare.model.requests) == asked
        events = (await send(gateway, key, "GET", f"{path}/events")).json()["events"]
        (ended,) = (each for each in events if each["type"] == "turnlog.attempt-ended.v1")
        assert ended["data"]["fault"]["code"] == "model-not-allowed"
        assert MODEL in ended["data"]["fault"]["detail"]


async def submit(gateway: RunningGateway, key: str, session: str, **headers: str) -> Any:  # noqa: ANN401
    path = f"/v1/sessions/{session}/turns"
    headers |= {"Authorization": f"Bearer {key}"}
    return await gateway.http.post(path, json={"text": "Hi"}, headers=headers)


async def test_a_tenant_has_no_more_turns_open_than_it_may(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        tenant, key = await create_tenant(gateway)
        _, others = await create_tenant(gateway)
        await configure(gateway, tenant, max_open_turns=3)
        sessions = [await open_session(gateway, key) for _ in range(8)]
        answers = await asyncio.gather(*(submit(gateway, key, each) for each in sessions))
        taken = [
            session for session, answer in zip(sessions, answers, strict=True) if answer.is_success
        ]
        refused = next(each for each in answers if each.status_code != 202)
        assert len(taken) == 3
        assert (refused.status_code, refused.json()["code"]) == (429, "too-many-open-turns")
        assert int(refused.headers["Retry-After"]) >= 1
        assert (await submit(gateway, others, await open_session(gateway, others))).is_success
        queued = await submit(gateway, key, taken[0])
        assert queued.status_code == 429
        ended = await send(gateway, key, "POST", f"/v1/sessions/{taken[0]}/cancel", json={})
        assert await wait_until_folded(
            bare.store,
            bare.projection_signal,
            tenant,
            taken[0],
            ended.json()["sequence"],
            within=30,
        )
        assert (await submit(gateway, key, taken[1])).status_code == 202
        assert (await submit(gateway, key, taken[0])).status_code == 429


async def test_a_repeated_turn_is_answered_beyond_the_limit(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        tenant, key = await create_tenant(gateway)
        await configure(gateway, tenant, max_open_turns=1)
        session, token = await open_session(gateway, key), {"Idempotency-Key": uuid.uuid4().hex}
        first = await submit(gateway, key, session, **token)
        again = await submit(gateway, key, session, **token)
        assert (first.status_code, again.status_code) == (202, 202)
        assert again.json() == first.json()
        assert (await submit(gateway, key, session)).status_code == 429


async def test_a_tenant_sees_that_it_has_a_key_and_not_where(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        tenant, boss = await create_tenant(gateway, "administrator")
        places = {"openai": "env:TRAVEL_OPENAI_KEY", "mistral": "file:/run/secrets/travel"}
        assert (await configure(gateway, tenant, provider_keys=places))["provider_keys"] == places
        for path in ("/v1/tenants", f"/v1/tenants/{tenant}"):
            shown = await send(gateway, boss, "GET", path)
            assert "TRAVEL_OPENAI_KEY" not in shown.text
            assert "/run/secrets" not in shown.text
            assert '"openai":"own"' in shown.text.replace(" ", "")
        assert (await configure(gateway, tenant, provider_keys=None))["provider_keys"] == {}


async def test_a_provider_is_named_as_models_name_it(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        tenant, _ = await create_tenant(gateway)
        body = {"provider_keys": {"Open AI": "env:A_KEY"}}
        answer = await gateway.http.patch(f"/v1/tenants/{tenant}", json=body, headers=ROOT)
        assert (answer.status_code, answer.json()["field"]) == (422, "provider_keys")


@pytest.mark.parametrize(
    "place",
    [
        *("env:TURNLOG_ROOT_KEY", "env:turnlog_nats_url", "env:", "env:A B", "file:relative"),
        *("sk-a-key-itself", "file:/a\nb", "ENV:A", ""),
    ],
)
async def test_a_key_itself_or_a_secret_of_the_service_is_no_place(
    bare: RunningGateway, place: str
) -> None:
    async with start_key_gateway(bare) as gateway:
        tenant, _ = await create_tenant(gateway)
        body = {"provider_keys": {"openai": place}}
        answer = await gateway.http.patch(f"/v1/tenants/{tenant}", json=body, headers=ROOT)
        assert answer.status_code == 422, answer.text
        assert len(place) < 8 or place not in answer.text
