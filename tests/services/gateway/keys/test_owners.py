"""Whose session it is: users reach their own, and those of others do not exist for them."""

from __future__ import annotations

import uuid

import pytest

from tests.services.gateway.gateway_service import RunningGateway
from tests.services.gateway.keys.key_gateway import (
    CLERK,
    create_key,
    create_users,
    open_session,
    send,
    start_key_gateway,
)
from tests.services.gateway.listed_routes import fill_path, iterate_routes
from turnlog.services.identity.permissions import ROLE_PERMISSIONS, find_permission

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_user_reaches_no_session_of_another_by_any_route(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        ada, bo = await create_users(gateway, "ada", "bo")
        session = await open_session(gateway, ada)
        shown = await send(gateway, ada, "GET", f"/v1/sessions/{session}")
        assert shown.json()["owner"] == "ada"
        for method, path in iterate_routes():
            if "{session}" not in path or (
                find_permission(path, method) not in ROLE_PERMISSIONS["caller"]
            ):
                continue
            foreign = await send(gateway, bo, method, fill_path(path, session))
            nobodys = await send(gateway, bo, method, fill_path(path, "0" * len(session)))
            assert (foreign.status_code, foreign.text) == (404, nobodys.text), (method, path)


async def test_users_who_choose_the_same_idempotency_key_get_sessions_of_their_own(
    bare: RunningGateway,
) -> None:
    async with start_key_gateway(bare) as gateway:
        keys = await create_users(gateway, "ada", "bo")
        chosen = uuid.uuid4().hex
        opened = []
        for key in (*keys, *keys):
            headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": chosen}
            answer = await gateway.http.post("/v1/sessions", json=CLERK, headers=headers)
            assert answer.status_code == 201, answer.text
            opened.append(answer.json()["session"])
        assert opened[:2] == opened[2:]
        assert opened[0] != opened[1]


async def test_an_id_or_a_key_of_anothers_session_opens_nothing(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        ada, bo = await create_users(gateway, "ada", "bo")
        session = f"s-{uuid.uuid4().hex}"
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        body = CLERK | {"session": session}
        for key, status in ((ada, 201), (bo, 404)):
            signed = headers | {"Authorization": f"Bearer {key}"}
            answer = await gateway.http.post("/v1/sessions", json=body, headers=signed)
            assert answer.status_code == status, answer.text


async def test_an_application_opens_sessions_of_users_and_reaches_all(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        app = await create_key(gateway, f"app-{uuid.uuid4().hex[:8]}", "caller")
        (cy,) = await create_users(gateway, "cy")
        session = await open_session(gateway, app, user="cy")
        for key in (app, cy):
            answer = await send(gateway, key, "GET", f"/v1/sessions/{session}")
            assert (answer.status_code, answer.json()["owner"]) == (200, "cy")
        body = CLERK | {"user": "ada"}
        refused = await send(gateway, cy, "POST", "/v1/sessions", json=body)
        assert (refused.status_code, refused.json()["code"]) == (400, "user-not-trusted")
        unowned = await open_session(gateway, app)
        assert (await send(gateway, cy, "GET", f"/v1/sessions/{unowned}")).status_code == 404
