"""Keys over HTTP: who gets in, with which roles, and who no longer does."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from tests.services.gateway.gateway_service import RunningGateway
from tests.services.gateway.keys.key_gateway import (
    HEADER,
    LOOPBACK,
    ROOT,
    ROOT_KEY,
    create_key,
    send,
    sign_in,
    start_key_gateway,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_nobody_gets_in_without_a_key_and_pages_stay_open(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        refused = await gateway.http.get("/v1/sessions")
        assert (refused.status_code, refused.json()["code"]) == (401, "not-signed-in")
        assert refused.headers["WWW-Authenticate"].startswith("Bearer")
        assert "TURNLOG_KEY" in refused.json()["fix"]
        for path in ("/healthz", "/readyz", "/"):
            assert (await gateway.http.get(path)).status_code == 200, path


async def test_a_key_is_shown_once_and_signs_in_with_its_roles(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        name = f"desk-{uuid.uuid4().hex[:8]}"
        key = await create_key(gateway, name, "watcher", "caller")
        assert re.fullmatch(r"tlk_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", key)
        listed = await gateway.http.get("/v1/keys", headers=ROOT)
        (shown,) = (each for each in listed.json()["keys"] if each["name"] == name)
        assert (shown["status"], shown["roles"]) == ("active", ["caller", "watcher"])
        assert key.startswith(f"tlk_{shown['id']}_")
        assert key not in listed.text
        who = (await send(gateway, key, "GET", "/v1/principal")).json()
        assert (who["actor"], who["sign_in"], who["tenant"]) == (f"key:{name}", "key", bare.tenant)
        assert {"sessions:write", "events:read"} <= {*who["permissions"]}
        assert (await send(gateway, key, "GET", "/v1/events")).status_code == 200
        lacking = await send(gateway, key, "GET", "/v1/quotas")
        assert (lacking.status_code, lacking.json()["code"]) == (403, "not-permitted")
        assert "`library:read`" in lacking.json()["detail"]
        assert "`operator`" in lacking.json()["fix"]


async def test_no_event_and_no_answer_has_a_key(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        key = await create_key(gateway, f"k-{uuid.uuid4().hex[:8]}", "caller")
        events = [
            each.stored
            async for bulk in bare.backend.library.stream_raw_events(None, 0, live=False)
            for each in bulk
        ]
        assert any(b"turnlog.key-created" in each for each in events)
        assert not any(key[-43:].encode() in each for each in events)


async def test_actors_of_events_are_the_key_or_its_user(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        name = f"app-{uuid.uuid4().hex[:8]}"
        key = await create_key(gateway, name, "caller")
        ada = await create_key(gateway, f"{name}-ada", "caller", user="ada")
        actors = []
        for each in (key, ada):
            body = {"blueprint": "clerk", "attributes": {"desk": "1"}}
            opened = await send(gateway, each, "POST", "/v1/sessions", json=body)
            assert opened.status_code == 201, opened.text
            path = f"/v1/sessions/{opened.json()['session']}/events"
            listed = (await send(gateway, each, "GET", path)).json()["events"]
            actors.append(listed[0]["actor"])
        assert actors == [f"key:{name}", "user:ada"]


@pytest.mark.parametrize(
    "credential",
    [
        "tlk_000000000000_" + "A" * 43,
        "tlk_" + "x" * 60,
        ROOT_KEY[:-1],
        ROOT_KEY + "x",
        "eyJhbGciOiJub25lIn0.e30.",
        "A" * 20_000,
    ],
)
async def test_what_is_no_key_is_refused_without_a_reason(
    bare: RunningGateway, credential: str
) -> None:
    async with start_key_gateway(bare) as gateway:
        known = await create_key(gateway, f"w-{uuid.uuid4().hex[:8]}", "caller")
        wrong = known[:-1] + ("A" if known[-1] != "A" else "B")
        answers = [await send(gateway, each, "GET", "/v1/sessions") for each in (credential, wrong)]
        assert [each.status_code for each in answers] == [401, 401]
        assert answers[0].json() == answers[1].json()


async def test_two_credentials_and_a_key_in_the_address_are_refused(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        key = await create_key(gateway, f"t-{uuid.uuid4().hex[:8]}", "caller")
        headers = [("Authorization", f"Bearer {key}"), ("Authorization", f"Bearer {ROOT_KEY}")]
        two = await gateway.http.get("/v1/sessions", headers=headers)
        assert (two.status_code, two.json()["code"]) == (401, "invalid-credentials")
        for name in ("key", "access_token", "authorization"):
            answer = await gateway.http.get(f"/v1/sessions?{name}={key}")
            assert answer.status_code == 401
            signed = await send(gateway, key, "GET", f"/v1/sessions?{name}={key}")
            assert (signed.status_code, key in signed.text) == (422, False)


async def test_a_revoked_key_is_refused_by_every_gateway_within_a_second(
    bare: RunningGateway,
) -> None:
    async with start_key_gateway(bare) as one, start_key_gateway(bare) as other:
        name = f"gone-{uuid.uuid4().hex[:8]}"
        key = await create_key(one, name, "caller")
        for gateway in (one, other):
            await wait_for_status(gateway, key, 200)
        revoked = await one.http.delete(f"/v1/keys/{name}", headers=ROOT)
        assert (revoked.status_code, revoked.json()["key"]["status"]) == (200, "revoked")
        for gateway in (one, other):
            await wait_for_status(gateway, key, 401)
        again = await one.http.delete(f"/v1/keys/{name}", headers=ROOT)
        assert (again.status_code, again.json()["code"]) == (404, "unknown-key")


async def wait_for_status(gateway: RunningGateway, key: str, status: int) -> None:
    """Ask until a gateway answers with a status; the deadline of tests ends what never does."""
    while (await send(gateway, key, "GET", "/v1/principal")).status_code != status:
        pass


async def test_a_rotated_key_has_another_secret_and_the_one_before_may_overlap(
    bare: RunningGateway,
) -> None:
    async with start_key_gateway(bare) as gateway:
        name = f"turn-{uuid.uuid4().hex[:8]}"
        first = await create_key(gateway, name, "caller")
        path = f"/v1/keys/{name}/rotate"
        answer = await gateway.http.post(path, json={"overlap_seconds": 600}, headers=ROOT)
        second = answer.json()["secret"]
        assert second[:17] == first[:17] != second
        for key in (first, second):
            await wait_for_status(gateway, key, 200)
        third = (await gateway.http.post(path, json={}, headers=ROOT)).json()["secret"]
        for key, status in ((first, 401), (second, 401), (third, 200)):
            await wait_for_status(gateway, key, status)


async def test_an_expired_key_is_refused_and_one_cannot_be_made(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        soon = datetime.now(UTC) + timedelta(seconds=1)
        key = await create_key(
            gateway, f"old-{uuid.uuid4().hex[:8]}", "caller", expires=soon.isoformat()
        )
        await wait_for_status(gateway, key, 401)
        body = {"name": "past", "roles": ["caller"], "expires": "2020-01-01T00:00:00Z"}
        refused = await gateway.http.post("/v1/keys", json=body, headers=ROOT)
        assert (refused.status_code, refused.json()["field"]) == (422, "expires")


async def test_a_repeated_command_tells_no_second_key(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        body = {"name": f"twice-{uuid.uuid4().hex[:8]}", "roles": ["caller"]}
        headers = ROOT | {"Idempotency-Key": uuid.uuid4().hex}
        first, second = [
            (await gateway.http.post("/v1/keys", json=body, headers=headers)).json()
            for _ in range(2)
        ]
        assert first["secret"] is not None
        assert (second["key"], second["secret"]) == (first["key"], None)
        taken = await gateway.http.post("/v1/keys", json=body, headers=ROOT)
        assert (taken.status_code, taken.json()["code"]) == (409, "key-taken")


async def test_only_an_administrator_has_keys_and_only_of_the_own_tenant(
    bare: RunningGateway,
) -> None:
    async with start_key_gateway(bare) as gateway:
        other = f"t-{uuid.uuid4().hex[:8]}"
        boss = await create_key(gateway, "boss", "administrator", tenant=other)
        body = {"name": "clerk", "roles": ["caller"]}
        made = await send(gateway, boss, "POST", "/v1/keys", json=body)
        assert (made.status_code, made.json()["key"]["tenant"]) == (201, other)
        clerk = made.json()["secret"]
        names = [
            each["name"] for each in (await send(gateway, boss, "GET", "/v1/keys")).json()["keys"]
        ]
        assert names == ["boss", "clerk"]
        for key, path in (
            (clerk, "/v1/keys"),
            (boss, "/v1/keys?for_tenant=*"),
            (boss, f"/v1/keys?for_tenant={bare.tenant}"),
        ):
            refused = await send(gateway, key, "GET", path)
            assert (refused.status_code, refused.json()["code"]) == (403, "not-permitted"), path
        body = {"name": "spy", "roles": ["auditor"], "tenant": bare.tenant}
        refused = await send(gateway, boss, "POST", "/v1/keys", json=body)
        assert (refused.status_code, refused.json()["field"]) == (403, "tenant")
        every = (await gateway.http.get("/v1/keys?for_tenant=*", headers=ROOT)).json()["keys"]
        assert {bare.tenant, other} <= {each["tenant"] for each in every} | {bare.tenant}


@pytest.mark.parametrize("tenant", ["_installation", "a.b", "", "ä", "x" * 65, "a b"])
async def test_names_of_tenants_that_none_may_have_are_refused(
    bare: RunningGateway, tenant: str
) -> None:
    async with start_key_gateway(bare) as gateway:
        body = {"name": "n", "roles": ["caller"], "tenant": tenant}
        refused = await gateway.http.post("/v1/keys", json=body, headers=ROOT)
        assert (refused.status_code, refused.json()["field"]) == (422, "tenant")


async def test_a_key_where_none_is_asked_for_is_refused(bare: RunningGateway) -> None:
    answer = await bare.http.get("/v1/sessions", headers=sign_in("tlk_000000000000_" + "A" * 43))
    assert (answer.status_code, answer.json()["code"]) == (400, "keys-not-configured")
    body = {"name": "n", "roles": ["caller"]}
    answer = await bare.http.post("/v1/keys", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "keys-not-configured")
    assert "TURNLOG_ROOT_KEY" in answer.json()["fix"]


async def test_a_use_is_noted_once_a_day(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        name = f"used-{uuid.uuid4().hex[:8]}"
        key = await create_key(gateway, name, "caller")

        async def fetch_use() -> tuple[int, str | None]:
            page = (await gateway.http.get("/v1/keys", headers=ROOT)).json()
            (shown,) = (each for each in page["keys"] if each["name"] == name)
            return page["sequence"], shown["used_at"]

        assert (await fetch_use())[1] is None
        await wait_for_status(gateway, key, 200)
        while (noted := await fetch_use())[1] is None:
            pass
        await wait_for_status(gateway, key, 200)
        assert await fetch_use() == noted


async def test_a_stream_ends_when_its_key_is_revoked(bare: RunningGateway) -> None:
    async with start_key_gateway(bare, keep_alive=60.0) as gateway:
        name = f"watch-{uuid.uuid4().hex[:8]}"
        key = await create_key(gateway, name, "watcher")
        await wait_for_status(gateway, key, 200)
        headers = sign_in(key) | {"Accept": "text/event-stream"}
        async with gateway.http.stream("GET", "/v1/events", headers=headers) as stream:
            assert stream.status_code == 200
            pieces = stream.aiter_bytes()
            await anext(pieces)
            await gateway.http.delete(f"/v1/keys/{name}", headers=ROOT)
            async for _ in pieces:
                pass


async def test_administrators_of_two_tenants_may_choose_the_same_idempotency_key(
    bare: RunningGateway,
) -> None:
    async with start_key_gateway(bare) as gateway:
        tenants = [f"t-{uuid.uuid4().hex[:8]}" for _ in range(2)]
        bosses = [
            await create_key(gateway, "boss", "administrator", tenant=each) for each in tenants
        ]
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        body = {"name": "clerk", "roles": ["caller"]}
        made = [
            await gateway.http.post("/v1/keys", json=body, headers=headers | sign_in(boss))
            for boss in bosses
        ]
        assert [each.json()["key"]["tenant"] for each in made] == tenants
        assert all(each.json()["secret"] for each in made)


async def test_an_operator_whom_a_proxy_names_creates_keys_where_they_are_asked_for(
    bare: RunningGateway,
) -> None:
    proxied = {"actor_proxies": LOOPBACK, "operators": ("ada",)}
    body = {"name": f"app-{uuid.uuid4().hex[:8]}", "roles": ["caller"]}
    async with start_key_gateway(bare, **proxied) as gateway:
        made = await gateway.http.post("/v1/keys", json=body, headers={HEADER: "ada"})
        assert made.status_code == 201, made.text
        key = made.json()["secret"]
        assert (await send(gateway, key, "GET", "/v1/principal")).status_code == 200


async def test_beyond_this_machine_a_request_that_names_nobody_is_refused_behind_a_proxy_too(
    bare: RunningGateway,
) -> None:
    settings = {"actor_proxies": LOOPBACK, "http": "0.0.0.0:0"}
    async with bare.start_another_gateway(**settings) as gateway:
        assert (await gateway.http.get("/readyz")).status_code == 200
        refused = await gateway.http.get("/v1/sessions")
        assert (refused.status_code, refused.json()["code"]) == (401, "not-signed-in")
        named = await gateway.http.get("/v1/principal", headers={HEADER: "ada"})
        assert named.json()["actor"] == "user:ada"
