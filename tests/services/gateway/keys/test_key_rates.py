"""A key that sends too much is told when to go on, and holds up nobody else."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator

import pytest

from tests.services.gateway.gateway_service import RunningGateway
from tests.services.gateway.keys.key_gateway import (
    CLERK,
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


async def test_bodies_beyond_the_bytes_of_a_key_are_refused_before_they_are_read(
    bare: RunningGateway,
) -> None:
    async with start_key_gateway(bare, key_bytes=2_000) as gateway:
        name = uuid.uuid4().hex[:8]
        flooding, other = [
            await create_key(gateway, f"{each}-{name}", "caller", tenant=f"bytes-{name}")
            for each in ("flooding", "other")
        ]
        body = CLERK | {"title": "x" * 100}
        size = len(json.dumps(body, separators=(",", ":")))
        allowed = 2_000 // size
        for _ in range(allowed):
            assert (await send(gateway, flooding, "POST", "/v1/sessions", json=body)).is_success
        refused = await send(gateway, flooding, "POST", "/v1/sessions", json=body)
        assert (refused.status_code, refused.json()["code"]) == (429, "too-many-requests")
        assert "bytes" in refused.json()["detail"]
        assert 1 <= int(refused.headers["Retry-After"]) <= 60
        assert (await send(gateway, other, "POST", "/v1/sessions", json=body)).is_success
        assert (await send(gateway, flooding, "GET", "/v1/sessions")).is_success


async def test_a_body_of_unstated_length_is_cut_where_its_bytes_end(bare: RunningGateway) -> None:
    async with start_key_gateway(bare) as gateway:
        tenant = f"bytes-{uuid.uuid4().hex[:8]}"
        key = await create_key(gateway, "app", "caller", tenant=tenant)
        answer = await gateway.http.patch(
            f"/v1/tenants/{tenant}", json={"body_bytes_per_minute": 300_000}, headers=ROOT
        )
        assert answer.is_success, answer.text

        async def iterate_pieces() -> AsyncIterator[bytes]:
            for _ in range(100):
                yield b"x" * 10_000
                await asyncio.sleep(0)

        headers = sign_in(key) | {"Content-Type": "text/plain"}
        refused = await gateway.http.post("/v1/blobs", content=iterate_pieces(), headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (429, "too-many-requests")
        assert "the tenant" in refused.json()["detail"]
