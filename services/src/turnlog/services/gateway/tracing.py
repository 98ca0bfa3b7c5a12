from __future__ import annotations

from dataclasses import dataclass

from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from turnlog.services.runtime.telemetry import Tracing


@dataclass(frozen=True, slots=True)
class TracingMiddleware:
    """ASGI middleware that runs a request within its tracing span.

    The span continues the trace of the client, if there is one, and has the route template as its
    name to keep the number of names small. The log records the client's trace context even when no
    spans are exported.
    """

    app: ASGIApp
    tracing: Tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        method: str = scope["method"]
        parent = Headers(scope=scope).get("traceparent")
        with self.tracing.start_request_span(method, parent) as span:
            await self.app(scope, receive, send)
            route: object = scope.get("route")
            if isinstance(route, APIRoute):
                span.update_name(f"{method} {route.path}")
