"""Every role at every route, and every route at a session of another tenant."""

from __future__ import annotations

import uuid

import pytest

from tests.services.gateway.gateway_service import RunningGateway
from tests.services.gateway.keys.key_gateway import create_key, send, start_key_gateway
from tests.services.gateway.listed_routes import fill_path, iterate_routes
from turnlog.services.identity.permissions import OPEN_PATHS, ROLE_PERMISSIONS, find_permission

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("role", ROLE_PERMISSIONS)
async def test_a_role_reaches_exactly_its_routes(bare: RunningGateway, role: str) -> None:
    async with start_key_gateway(bare) as gateway:
        key = await create_key(gateway, f"{role}-{uuid.uuid4().hex[:8]}", role)
        for method, path in iterate_routes():
            if path in OPEN_PATHS:
                continue
            answer = await send(gateway, key, method, fill_path(path))
            is_allowed = find_permission(path, method) in ROLE_PERMISSIONS[role]  # type: ignore[index]
            assert (answer.status_code != 403) == is_allowed, (method, path, answer.text)
            assert answer.status_code < 500, (method, path, answer.text)


async def test_no_route_reaches_a_session_of_another_tenant(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        roles = list(ROLE_PERMISSIONS)
        tenants = [f"t-{uuid.uuid4().hex[:8]}" for _ in range(2)]
        desk, review = [await create_key(gateway, "all", *roles, tenant=each) for each in tenants]
        body = {"blueprint": "clerk", "attributes": {"desk": "d-1"}}
        opened = await send(gateway, desk, "POST", "/v1/sessions", json=body)
        session = opened.json()["session"]
        assert (await send(gateway, desk, "GET", f"/v1/sessions/{session}")).status_code == 200
        for method, path in iterate_routes():
            if "{session}" not in path:
                continue
            foreign = await send(gateway, review, method, fill_path(path, session))
            nobodys = await send(gateway, review, method, fill_path(path, "0" * len(session)))
            told = foreign.text.replace(session, "0" * len(session))
            assert (foreign.status_code, told) == (nobodys.status_code, nobodys.text), path
            assert foreign.status_code in {404, 422}, (path, foreign.text)
