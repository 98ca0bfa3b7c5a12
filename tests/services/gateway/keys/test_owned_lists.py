"""Lists of sessions have those of the user who asks, and searches too."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from tests.services.gateway.gateway_service import RunningGateway
from tests.services.gateway.keys.key_gateway import (
    create_key,
    create_users,
    open_session,
    send,
    start_key_gateway,
)


async def list_owned(gateway: RunningGateway, key: str, query: str = "") -> Sequence[Any]:
    """List sessions that the rows contain."""
    answer = await send(gateway, key, "GET", f"/v1/sessions{query}")
    assert answer.status_code == 200, answer.text
    return [each["session"] for each in answer.json()["sessions"]]


async def test_lists_have_the_own_sessions_only(stand: RunningGateway) -> None:
    async with start_key_gateway(stand) as gateway:
        ada, bo = await create_users(gateway, "ada", "bo")
        watcher = await create_key(gateway, f"w-{uuid.uuid4().hex[:8]}", "watcher", user="wu")
        mine = [await open_session(gateway, ada) for _ in range(2)]
        other = await open_session(gateway, bo)
        awaited = f"?min_sequence={other}:1"
        assert {*await list_owned(gateway, watcher, awaited)} == {*mine, other}
        assert {*await list_owned(gateway, watcher, "?owner=ada")} == {*mine}
        assert {*await list_owned(gateway, ada)} == {*mine}
        assert {*await list_owned(gateway, ada, "?owner=ada")} == {*mine}
        assert await list_owned(gateway, bo) == [other]
        assert await list_owned(gateway, ada, "?owner=bo") == []
        refused = await send(gateway, ada, "GET", f"/v1/sessions{awaited}")
        assert refused.json()["code"] == "unknown-session"


async def test_lists_have_what_others_share(stand: RunningGateway) -> None:
    async with start_key_gateway(stand) as gateway:
        ada, bo = await create_users(gateway, f"ada-{uuid.uuid4().hex}", f"bo-{uuid.uuid4().hex}")
        shown = (await send(gateway, bo, "GET", "/v1/principal")).json()
        shared, _ = await open_session(gateway, ada), await open_session(gateway, ada)
        path = f"/v1/sessions/{shared}/shares/{shown['user']}"
        for method, found in (("PUT", [shared]), ("DELETE", [])):
            done = await send(gateway, ada, method, path)
            awaited = f"?min_sequence={shared}:{done.json()['sequence']}"
            await list_owned(gateway, ada, awaited)
            assert await list_owned(gateway, bo) == found
