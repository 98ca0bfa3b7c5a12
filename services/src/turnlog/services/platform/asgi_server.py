"""Serving an ASGI application on a socket, with a graceful shutdown.

It handles no signals: the process decides when to end. Running requests then get the grace time.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from turnlog.events.errors import Refused

BACKLOG: Final = 2_048
"""Connections that may wait to be accepted."""

IDLE_SECONDS: Final = 75
"""How long a connection between two requests is kept.

Longer than clients and proxies keep theirs (5 s httpx, 60 s nginx and most balancers), so that the
side that sends a request is the one that closes: whoever sends into a closing connection gets an
error, and a proxy answers 502 for it.
"""

ACCEPTED_PER_PASS: Final = 32
"""Connections that are accepted in one pass of the event loop, which each takes half a millisecond.
"""


@asynccontextmanager
async def serve_asgi(
    app: Callable[..., Any],
    address: str,
    *,
    field: str,
    grace: float,
    on_stopping: Callable[[], None],
    http: type[H11Protocol] = H11Protocol,
) -> AsyncGenerator[str]:
    """Serve an ASGI application while the body runs; yield its URL with the real port.

    `on_stopping` is called before the server waits for running requests. Refuses an address, naming
    its setting, on which the process cannot listen.
    """
    listening = _open_socket(address, field)
    config = uvicorn.Config(
        app,
        http=http,
        lifespan="off",
        ws="none",
        loop="asyncio",
        log_config=None,
        access_log=False,
        # asyncio accepts as many at once as it is told may wait.
        backlog=ACCEPTED_PER_PASS,
        # Otherwise anything on this machine could choose its address by `X-Forwarded-For`.
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=math.ceil(grace),
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup([listening])
    listening.listen(BACKLOG)  # uvicorn has set its own.
    running = asyncio.create_task(server.main_loop())
    try:
        yield _format_url(listening)
    finally:
        on_stopping()
        server.should_exit = True
        await running
        await server.shutdown([listening])


def _open_socket(address: str, field: str) -> socket.socket:
    try:
        parts = urlsplit(f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None or port is None:
        fix = "give it as 127.0.0.1:8700; port 0 is any free one"
        raise Refused("bad-setting", f"{address!r} is not HOST:PORT", field=field, fix=fix)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # IPPROTO_TCP is named because asyncio sets TCP_NODELAY only on such a socket; otherwise every
    # answer is 40 ms late.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        detail = f"cannot listen on {address}: {error.strerror}"
        fix = "stop the process that listens there, or choose another port"
        raise Refused("bad-setting", detail, field=field, fix=fix) from error
    return listening


def _format_url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
