"""A gateway that asks for keys, and what its tests sign in with."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from ipaddress import ip_network
from typing import Any

from pydantic import SecretStr

from tests.services.gateway.gateway_service import RunningGateway

HEADER = "X-Forwarded-User"

LOOPBACK = (ip_network("127.0.0.0/8"),)

ROOT_KEY = "a-root-key-of-more-than-32-characters"

CLERK = {"blueprint": "clerk", "attributes": {"desk": "d-1"}}
"""The body of a request that opens a session."""

ROOT = {"Authorization": f"Bearer {ROOT_KEY}"}


@asynccontextmanager
async def start_key_gateway(
    stand: RunningGateway, **settings: object
) -> AsyncGenerator[RunningGateway]:
    """Start a gateway that asks for keys on the log of another one."""
    secret = SecretStr(ROOT_KEY)
    async with stand.start_another_gateway(root_key=secret, **settings) as gateway:
        yield gateway


async def create_key(gateway: RunningGateway, name: str, *roles: str, **form: object) -> str:
    """Create a key of the gateway's tenant, or of `tenant`."""
    body = {"name": name, "roles": list(roles), **form}
    answer = await gateway.http.post("/v1/keys", json=body, headers=ROOT)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["secret"])


def sign_in(key: str) -> dict[str, str]:
    """Return the headers of a request with a key."""
    return {"Authorization": f"Bearer {key}"}


async def send(
    gateway: RunningGateway,
    key: str | None,
    method: str,
    path: str,
    **form: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Send a request with a key, or with none."""
    headers = {} if key is None else sign_in(key)
    return await gateway.http.request(method, path, headers=headers, **form)


async def create_users(gateway: RunningGateway, *users: str) -> list[str]:
    """Create a key of each user, who is a caller."""
    return [
        await create_key(gateway, f"{user}-{uuid.uuid4().hex[:8]}", "caller", user=user)
        for user in users
    ]


async def open_session(gateway: RunningGateway, key: str, **form: object) -> str:
    """Open a session with a key and return its id."""
    opened = await send(gateway, key, "POST", "/v1/sessions", json=CLERK | form)
    assert opened.status_code == 201, opened.text
    return str(opened.json()["session"])
