"""Serving: the application on a socket, until it is told to end and has ended in good order.

Signals are none of its business: whoever runs the process decides when it ends. Those who wait
for something are answered at once then, and what is under way gets the grace time.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

import uvicorn

from turnlog.events.errors import Refused
from turnlog.services.gateway.app import build
from turnlog.services.gateway.desk import Desk

BACKLOG: Final = 2_048
"""Connections that may wait to be taken."""


@asynccontextmanager
async def serving(desk: Desk) -> AsyncGenerator[str]:
    """Serve while the body runs; gives the address, with the port that port 0 became."""
    listening = _listening(desk.settings.http)
    config = uvicorn.Config(
        build(desk),
        lifespan="off",
        ws="none",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=math.ceil(desk.settings.grace),
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup([listening])
    running = asyncio.create_task(server.main_loop())
    try:
        yield _address(listening)
    finally:
        desk.stopping.set()
        server.should_exit = True
        await running
        await server.shutdown([listening])


def _listening(http: str) -> socket.socket:
    try:
        place = urlsplit(f"//{http}")
        host, port = place.hostname, place.port
    except ValueError:
        host = port = None
    if host is None or port is None:
        fix = "give it as 127.0.0.1:8700; port 0 is any free one"
        raise Refused("bad-setting", f"{http!r} is no host and port", field="http", fix=fix)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP: asyncio sends small writes at once only on a socket that says so, and else
    # every answer is 40 ms late.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        detail = f"cannot listen on {http}: {error.strerror}"
        fix = "end what listens there, or choose another port"
        raise Refused("bad-setting", detail, field="http", fix=fix) from error
    return listening


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
