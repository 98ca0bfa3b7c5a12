from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from turnlog.services.gateway.app import build_app
from turnlog.services.gateway.desk import GatewayDependencies
from turnlog.services.gateway.heads import create_http_protocol
from turnlog.services.runtime.serving import serve_asgi


def serve_app(deps: GatewayDependencies) -> AbstractAsyncContextManager[str]:
    """Serve the application while the context is open and yield the address.

    The address holds the real port when port 0 was configured. Waiting requests are answered at
    shutdown.
    """
    settings = deps.settings
    leaving = deps.shutdown_event.set
    return serve_asgi(
        build_app(deps),
        settings.http,
        field="http",
        grace=settings.grace,
        leaving=leaving,
        http=create_http_protocol(settings.body_seconds),
    )
