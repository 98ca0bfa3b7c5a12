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
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from turnlog.events.errors import TurnlogError, Unavailable
from turnlog.services.platform.asgi_server import serve_asgi
from turnlog.services.platform.telemetry.request_log import RequestLog

_log = structlog.get_logger("turnlog.process")

CHECK_TIMEOUT: Final = 3.0
"""Seconds that a component has to answer."""

PROBE_SESSION: Final = "readiness-probe"
"""A session name that is never opened."""

HEALTH_GRACE: Final = 1.0

HealthCheck = Callable[[], Awaitable[object]]

HealthChecks = Mapping[str, HealthCheck]
"""For each component, a request that it answers only when it is healthy."""

ADVISORY_PARTS: Final = frozenset(
    {"record", "sessions", "knowledge", "model", "durability", "tools"}
)
"""Parts that are reported while the process stays ready.

A damaged record and stopped sessions concern some sessions only, a damaged index is built again, a
reply waits for the model library by itself, a tool server concerns its own tools, and what one
server of several says, or does not say, must not stop the others.
"""


def is_ready(failures: Mapping[str, str | None]) -> bool:
    """Return whether a process can work, by what is wrong with each part."""
    return not any(failure for name, failure in failures.items() if name not in ADVISORY_PARTS)


@dataclass(eq=False, kw_only=True)
class RecentCheck:
    """A check that costs a write, made at most every few seconds however often readiness is asked.

    In between, the last outcome is the answer. Requests that come meanwhile wait for the same one.
    """

    component: str
    check: HealthCheck
    seconds: float = 5.0
    """Seconds for which an outcome counts."""
    _failure: TurnlogError | None = None
    _due_at: float = 0.0
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def require_healthy(self) -> None:
        """Raise what the last check raised; `Unavailable` if it had no answer."""
        clock = asyncio.get_running_loop()
        async with self._lock:
            if clock.time() >= self._due_at:
                # Also what counts if the caller's patience ends the check.
                self._failure = Unavailable(self.component, f"no answer within {CHECK_TIMEOUT:g} s")
                self._due_at = clock.time() + self.seconds
                try:
                    await self.check()
                    self._failure = None
                except TurnlogError as error:
                    self._failure = error
        if self._failure is not None:
            raise self._failure


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
async def serve_health(
    address: str | None, checks: HealthChecks, tenant: str
) -> AsyncGenerator[None]:
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

    logged = RequestLog(app, tenant, _find_health_route)
    async with serve_asgi(
        logged, address, field="health", grace=HEALTH_GRACE, on_stopping=stopping.set
    ) as url:
        _log.info("health-listening", address=url)
        yield


def _find_health_route(scope: Mapping[str, object]) -> str | None:
    return next((path for path in ("/healthz", "/readyz") if path == scope["path"]), None)


_AsgiSend = Callable[[Mapping[str, Any]], Awaitable[None]]


async def _check_readiness(checks: HealthChecks, *, stopping: bool) -> dict[str, Any]:
    found = await asyncio.gather(*(find_failure(ask()) for ask in checks.values()))
    failures = dict(zip(checks, found, strict=True))
    parts = {name: {"ready": not failure, "detail": failure} for name, failure in failures.items()}
    return {"ready": not stopping and is_ready(failures), "parts": parts}


async def _send_json(send: _AsgiSend, status: int, body: Mapping[str, Any]) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})
