"""A key that sends too much is told when to go on, and holds up nobody else."""

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

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_requests_beyond_the_rate_of_a_key_are_refused_with_a_time(
    bare: RunningGateway,
) -> None:
    async with start_key_gateway(bare, key_rate=0.2) as gateway:
        flooding, other = [
            await create_key(gateway, f"{name}-{uuid.uuid4().hex[:8]}", "caller")
            for name in ("flooding", "other")
        ]
        answers = [await send(gateway, flooding, "GET", "/v1/principal") for _ in range(3)]
        assert [each.status_code for each in answers] == [200, 200, 429]
        assert answers[2].json()["code"] == "too-many-requests"
        assert 1 <= int(answers[2].headers["Retry-After"]) <= 5
        assert (await send(gateway, other, "GET", "/v1/principal")).status_code == 200
        for _ in range(5):
            assert (await gateway.http.get("/v1/principal", headers=ROOT)).status_code == 200


async def test_streams_beyond_those_of_a_key_are_refused_until_one_ends(
    bare: RunningGateway,
) -> None:
    async with start_key_gateway(bare, key_streams=1) as gateway:
        key = await create_key(gateway, f"watch-{uuid.uuid4().hex[:8]}", "watcher")
        headers = sign_in(key) | {"Accept": "text/event-stream"}
        async with gateway.http.stream("GET", "/v1/events", headers=headers) as stream:
            assert stream.status_code == 200
            second = await gateway.http.get("/v1/events", headers=headers)
            assert (second.status_code, second.json()["code"]) == (429, "too-many-requests")
        while True:
            async with gateway.http.stream("GET", "/v1/events", headers=headers) as stream:
                if stream.status_code == 200:
                    return
