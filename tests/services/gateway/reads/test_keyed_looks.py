"""Looks of those who signed in with a key, of any role."""

from __future__ import annotations

from tests.services.gateway.gateway_service import RunningGateway
from tests.services.gateway.keys.key_gateway import (
    ROOT,
    create_key,
    send,
    start_key_gateway,
)


async def test_look_names_the_key_and_only_those_who_may_look_leave_one(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session()
    await stand.submit_and_answer(session, "Hi", "Hello")
    prompt = f"/v1/sessions/{session}/calls/1.1/prompt"
    async with start_key_gateway(stand) as gateway:
        auditor = await create_key(gateway, "audit", "auditor")
        caller = await create_key(gateway, "desk", "caller", user="ada")
        assert (await send(gateway, caller, "GET", prompt)).status_code in {403, 404}
        assert (await send(gateway, None, "GET", prompt)).status_code == 401
        assert (await send(gateway, caller, "GET", "/v1/reads")).status_code == 403
        assert (await send(gateway, auditor, "GET", prompt)).status_code == 200
        (found,) = (await send(gateway, auditor, "GET", "/v1/reads")).json()["reads"]
        assert (found["what"], found["session"], found["call"]) == ("prompt", session, "1.1")
        assert (found["actor"], found["sign_in"]) == ("key:audit", "key")
        keys = (await gateway.http.get("/v1/keys", headers=ROOT)).json()["keys"]
        assert found["key"] in {key["id"] for key in keys if key["name"] == "audit"}
        assert found["address"] == "127.0.0.1"


async def test_looks_of_a_tenant_are_read_in_that_tenant_alone(stand: RunningGateway) -> None:
    async with start_key_gateway(stand) as gateway:
        own = await create_key(gateway, "audit", "auditor")
        other = await create_key(gateway, "audit", "auditor", tenant=f"{stand.tenant}-2")
        assert (await send(gateway, own, "GET", "/v1/reads")).json()["reads"] == []
        assert (await send(gateway, other, "GET", "/v1/reads")).json()["reads"] == []
        for key in (own, other):
            found = (await send(gateway, key, "GET", "/v1/reads")).json()["reads"]
            assert {row["what"] for row in found} == {"reads"}
            assert len(found) == 1
