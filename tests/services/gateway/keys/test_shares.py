"""A session that its owner shares: what the other user may do there, and when it ends."""

from __future__ import annotations

import uuid

import pytest

from tests.services.gateway.gateway_service import RunningGateway
from tests.services.gateway.keys.key_gateway import (
    create_key,
    create_users,
    open_session,
    send,
    sign_in,
    start_key_gateway,
)
from tests.services.gateway.listed_routes import fill_path, iterate_routes
from turnlog.services.identity.permissions import (
    PATHS_OUT_OF_SESSION,
    ROLE_PERMISSIONS,
    find_permission,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def share(gateway: RunningGateway, key: str, session: str, user: str, access: str) -> int:
    """Share a session as whoever has a key; return the status."""
    path = f"/v1/sessions/{session}/shares/{user}"
    answer = await send(gateway, key, "PUT", path, json={"access": access})
    return int(answer.status_code)


async def test_a_shared_session_is_read_and_with_submit_taken_part_in(
    bare: RunningGateway,
) -> None:
    async with start_key_gateway(bare) as gateway:
        ada, bo = await create_users(gateway, "ada", "bo")
        session = await open_session(gateway, ada)
        turns, body = f"/v1/sessions/{session}/turns", {"text": "Hi"}
        assert await share(gateway, bo, session, "bo", "submit") == 404
        for access, status in (("read", 403), ("submit", 202)):
            assert await share(gateway, ada, session, "bo", access) == 200
            shown = await send(gateway, bo, "GET", f"/v1/sessions/{session}")
            assert shown.json()["shares"] == [{"user": "bo", "access": access}]
            sent = await send(gateway, bo, "POST", turns, json=body)
            assert sent.status_code == status, sent.text
        events = await send(gateway, ada, "GET", f"/v1/sessions/{session}/events")
        actors = {each["type"]: each["actor"] for each in events.json()["events"]}
        assert actors["turnlog.share-changed.v1"] == "user:ada"
        assert actors["turnlog.turn-submitted.v1"] == "user:bo"


@pytest.mark.parametrize("access", ["read", "submit"])
async def test_nothing_leads_out_of_a_shared_session(bare: RunningGateway, access: str) -> None:
    async with start_key_gateway(bare) as gateway:
        ada, bo = await create_users(gateway, "ada", "bo")
        session = await open_session(gateway, ada)
        assert await share(gateway, ada, session, "bo", access) == 200
        tried = 0
        for method, path in iterate_routes():
            needed = find_permission(path, method)
            if "{session}" not in path or needed not in ROLE_PERMISSIONS["caller"]:
                continue
            if path in PATHS_OUT_OF_SESSION or (access == "read" and needed == "sessions:write"):
                tried += 1
                answer = await send(gateway, bo, method, fill_path(path, session))
                assert answer.status_code == 403, (method, path)
                assert answer.json()["code"] == "not-permitted"
        assert tried >= len(PATHS_OUT_OF_SESSION)


async def test_forks_are_not_shared_with_their_origin(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        ada, bo = await create_users(gateway, "ada", "bo")
        session = await open_session(gateway, ada)
        assert await share(gateway, ada, session, "bo", "submit") == 200
        forked = await send(gateway, ada, "POST", f"/v1/sessions/{session}/fork", json={"at": 2})
        fork = forked.json()["session"]
        assert (await send(gateway, ada, "GET", f"/v1/sessions/{fork}")).json()["shares"] == []
        assert (await send(gateway, bo, "GET", f"/v1/sessions/{fork}")).status_code == 404


async def test_an_ended_share_ends_streams_at_every_gateway(bare: RunningGateway) -> None:
    async with (
        start_key_gateway(bare) as first,
        start_key_gateway(bare, keep_alive=60.0) as second,
    ):
        ada, bo = await create_users(first, "ada", "bo")
        session = await open_session(first, ada)
        path = f"/v1/sessions/{session}"
        assert await share(first, ada, session, "bo", "read") == 200
        assert (await send(second, bo, "GET", path)).status_code == 200
        headers = sign_in(bo) | {"Accept": "text/event-stream"}
        async with second.http.stream("GET", f"{path}/events", headers=headers) as stream:
            assert stream.status_code == 200
            pieces = stream.aiter_bytes()
            await anext(pieces)
            ended = await send(first, ada, "DELETE", f"{path}/shares/bo")
            assert ended.status_code == 200, ended.text
            async for _ in pieces:
                pass
        nobodys = await send(second, bo, "GET", f"/v1/sessions/{'0' * len(session)}")
        refused = await send(second, bo, "GET", path)
        assert (refused.status_code, refused.text) == (404, nobodys.text)


async def test_sharing_names_another_user_and_is_recorded_once(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        (ada,) = await create_users(gateway, "ada")
        operator = await create_key(gateway, f"op-{uuid.uuid4().hex[:8]}", "operator")
        session = await open_session(gateway, ada)
        assert await share(gateway, ada, session, "ada", "read") == 422
        assert await share(gateway, ada, session, "bo", "write") == 422
        assert await share(gateway, ada, session, "b%00o", "read") == 422
        assert await share(gateway, operator, session, "bo%2Fteam", "read") == 200
        path = f"/v1/sessions/{session}"
        before = (await send(gateway, ada, "GET", path)).json()
        assert before["shares"] == [{"user": "bo/team", "access": "read"}]
        assert await share(gateway, ada, session, "bo%2Fteam", "read") == 200
        assert (await send(gateway, ada, "GET", path)).json() == before
