"""Health of a process: whether it runs, and whether the components that it needs answer.

The gateway reports it at its own address. A worker or projector opens a small endpoint if its
settings name one: `/healthz` answers as long as the process runs, `/readyz` reports ready once the
process works and every component answers. Nothing else is served there.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from turnlog.events.errors import TurnlogError
from turnlog.services.platform.asgi_server import serve_asgi

CHECK_TIMEOUT: Final = 3.0
"""Seconds that a component has to answer."""

PROBE_SESSION: Final = "readiness-probe"
"""A session name that is never opened."""

HEALTH_GRACE: Final = 1.0

HealthCheck = Callable[[], Awaitable[object]]

HealthChecks = Mapping[str, HealthCheck]
"""For each component, a request that it answers only when it is healthy."""


async def find_failure(check: Awaitable[object]) -> str | None:
    """Return what is wrong with a component, or None when it answers."""
    try:
        async with asyncio.timeout(CHECK_TIMEOUT):
            await check
    except TimeoutError:
        return f"no answer within {CHECK_TIMEOUT:g} s"
    except TurnlogError as error:
        return str(error)
    return None


@asynccontextmanager
async def serve_health(address: str | None, checks: HealthChecks) -> AsyncGenerator[None]:
    """Serve the health of this process while the body runs, if there is an address."""
    if address is None:
        yield
        return
    stopping = asyncio.Event()

    async def app(scope: Mapping[str, Any], _receive: object, send: _AsgiSend) -> None:
        match scope["path"]:
            case "/healthz":
                await _send_json(send, 200, {"alive": True})
            case "/readyz":
                ready = await _check_readiness(checks, stopping=stopping.is_set())
                await _send_json(send, 200 if ready["ready"] else 503, ready)
            case _:
                await _send_json(send, 404, {"detail": "only /healthz and /readyz are served"})

    async with serve_asgi(
        app, address, field="health", grace=HEALTH_GRACE, on_stopping=stopping.set
    ):
        yield


_AsgiSend = Callable[[Mapping[str, Any]], Awaitable[None]]


async def _check_readiness(checks: HealthChecks, *, stopping: bool) -> dict[str, Any]:
    found = await asyncio.gather(*(find_failure(ask()) for ask in checks.values()))
    parts = {
        name: {"ready": not failure, "detail": failure}
        for name, failure in zip(checks, found, strict=True)
    }
    return {"ready": not stopping and not any(found), "parts": parts}


async def _send_json(send: _AsgiSend, status: int, body: Mapping[str, Any]) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})
