"""A browser with a token reaches one session for some minutes, and nothing else."""

from __future__ import annotations

import uuid

import pytest

from tests.services.gateway.gateway_service import RunningGateway
from tests.services.gateway.keys.key_gateway import (
    ROOT,
    create_key,
    send,
    sign_in,
    start_key_gateway,
)
from tests.services.gateway.listed_routes import fill_path, iterate_routes
from turnlog.services.identity.permissions import (
    OPEN_PATHS,
    PATHS_BESIDE_SESSION,
    ROLE_PERMISSIONS,
    find_permission,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

CLERK = {"blueprint": "clerk", "attributes": {"desk": "d-1"}}


async def open_with_token(gateway: RunningGateway, key: str, **form: object) -> tuple[str, str]:
    """Open a session with a key; return it, and a token for it."""
    opened = await send(gateway, key, "POST", "/v1/sessions", json=CLERK)
    assert opened.status_code == 201, opened.text
    session = str(opened.json()["session"])
    made = await send(gateway, key, "POST", f"/v1/sessions/{session}/tokens", json=form)
    assert made.status_code == 201, made.text
    return session, str(made.json()["token"])


async def test_a_token_reads_its_session_and_submits_only_where_it_may(
    bare: RunningGateway,
) -> None:
    async with start_key_gateway(bare) as gateway:
        key = await create_key(gateway, f"app-{uuid.uuid4().hex[:8]}", "caller")
        for may_submit, status in ((False, 403), (True, 202)):
            session, token = await open_with_token(gateway, key, may_submit=may_submit, user="ada")
            body = {"text": "Hi"}
            turns = f"/v1/sessions/{session}/turns"
            assert (await send(gateway, token, "POST", turns, json=body)).status_code == status
            shown = (await send(gateway, token, "GET", "/v1/principal")).json()
            assert (shown["session"], shown["actor"]) == (session, "user:ada")
            # Sessions that belong to nobody are reached by no user's token
            owner = await send(gateway, token, "GET", f"/v1/sessions/{session}")
            assert owner.status_code == 200


async def test_a_token_reaches_no_other_session_and_no_other_route(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        key = await create_key(gateway, f"app-{uuid.uuid4().hex[:8]}", "caller")
        session, token = await open_with_token(gateway, key, may_submit=True)
        other, _ = await open_with_token(gateway, key)
        for method, path in iterate_routes():
            answer = await send(gateway, token, method, fill_path(path, other))
            is_reached = path in PATHS_BESIDE_SESSION or path in OPEN_PATHS
            assert (answer.status_code == 403) != is_reached, (path, answer.text)
            if "{session}" in path:
                own = await send(gateway, token, method, fill_path(path, session))
                is_callers = find_permission(path, method) in ROLE_PERMISSIONS["caller"]
                leads_out = path.endswith(("/fork", "/tokens", "/shares/{user:path}"))
                assert (own.status_code == 403) == (leads_out or not is_callers), (path, own.text)


async def test_a_token_ends_with_the_key_that_made_it(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        name = f"app-{uuid.uuid4().hex[:8]}"
        key = await create_key(gateway, name, "caller")
        session, token = await open_with_token(gateway, key)
        path = f"/v1/sessions/{session}"
        assert (await send(gateway, token, "GET", path)).status_code == 200
        await gateway.http.delete(f"/v1/keys/{name}", headers=ROOT)
        while (await send(gateway, token, "GET", path)).status_code == 200:
            pass
        assert (await send(gateway, token, "GET", path)).status_code == 401


async def test_a_token_that_was_altered_signs_nobody_in(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        key = await create_key(gateway, f"app-{uuid.uuid4().hex[:8]}", "caller")
        _, token = await open_with_token(gateway, key)
        for altered in (token[:-1], f"{token}A", token.replace("tlb_e", "tlb_f", 1)):
            answer = await gateway.http.get("/v1/principal", headers=sign_in(altered))
            assert (answer.status_code, answer.json()["code"]) == (401, "invalid-credentials")
