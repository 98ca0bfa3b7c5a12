"""One line in the log of a process for each HTTP request, when it is over.

A line has the method, the template of the route, the status, the duration and the tenant: nothing
that a caller wrote, and few different values, so that lines can be counted. A stream is over when
it was read or its reader left. What machines fetch all the time (health, and the files of the page)
is logged at `debug`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

QUIET_ROUTES: Final = frozenset({"/healthz", "/readyz", "/page/{name:path}"})
"""Routes whose successful requests are logged at `debug`."""

KNOWN_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

FIRST_ERROR_STATUS: Final = 500

_log = structlog.get_logger("turnlog.http")

AsgiMessage = MutableMapping[str, Any]

AsgiReceive = Callable[[], Awaitable[AsgiMessage]]

AsgiSend = Callable[[AsgiMessage], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RequestLog:
    """ASGI middleware that logs each request."""

    app: Callable[..., Awaitable[None]]
    tenant: str
    """The tenant of a request whose sender is not known."""
    find_route: Callable[[Mapping[str, object]], str | None]
    """Returns the template of the route that handled the request."""

    async def __call__(
        self, scope: MutableMapping[str, Any], receive: AsgiReceive, send: AsgiSend
    ) -> None:
        """Pass on a request, and log it when the application has ended."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        clock = asyncio.get_running_loop()
        begun_at, statuses = clock.time(), list[int]()

        async def send_and_note(message: AsgiMessage) -> None:
            if message["type"] == "http.response.start":
                statuses.append(int(message["status"]))  # FastAPI has one of `HTTPStatus` at times
            await send(message)

        try:
            await self.app(scope, receive, send_and_note)
        finally:
            self._log_request(scope, statuses[0] if statuses else None, clock.time() - begun_at)

    def _log_request(self, scope: Mapping[str, Any], status: int | None, seconds: float) -> None:
        route, method = self.find_route(scope), scope["method"]
        principal = scope.get("state", {}).get("principal")
        is_quiet = route in QUIET_ROUTES and (status or 0) < FIRST_ERROR_STATUS
        (_log.debug if is_quiet else _log.info)(
            "request",
            method=method if method in KNOWN_METHODS else "other",
            route=route or "unknown",
            # Without one the client left before there was an answer.
            status=status,
            seconds=round(seconds, 4),
            tenant=principal.tenant if principal else self.tenant,
        )
