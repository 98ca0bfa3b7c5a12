"""The span of a request: the root of a turn's trace, or a piece of the client's own.

It is named by the route's template, since a name with an id in it would be a new one for each
session. What the client sent as trace context goes on into the log with or without spans.
"""

from __future__ import annotations

from dataclasses import dataclass

from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from turnlog.services.runtime.telemetry import Tracing


@dataclass(frozen=True, slots=True)
class Traced:
    """Stands in front of an application."""

    app: ASGIApp
    tracing: Tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on within its span."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        method: str = scope["method"]
        parent = Headers(scope=scope).get("traceparent")
        with self.tracing.request(method, parent) as span:
            await self.app(scope, receive, send)
            route: object = scope.get("route")
            if isinstance(route, APIRoute):
                span.update_name(f"{method} {route.path}")
