"""Connections to a service: a reader, a plain client, or one command.

If no service runs, the data directory's nats-server, the read models and a gateway on a free
loopback port are started, so the same code answers. No worker is started, so no session changes
meanwhile.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import assert_never

import httpx

from turnlog.services.cli.options import Asked
from turnlog.services.cli.place import Directory, Service, find
from turnlog.services.cli.reader.reader import SECONDS, Reader


@asynccontextmanager
async def opened(asked: Asked, *, rows: bool) -> AsyncGenerator[Reader]:
    """Yield a reader of `target`; `with_read_models` is needed for lists."""
    place = find(asked.url, asked.data_dir)
    match place:
        case Service(url=url):
            async with client(url) as reached:
                yield Reader(reached)
        case Directory(path=path):
            # A service in this process needs imports that no other path needs.
            from turnlog.services.cli.reader.service import serving  # noqa: PLC0415

            async with serving(path, asked.tenant, rows=rows) as url, client(url) as reached:
                yield Reader(reached, live=False)
        case _ as never:
            assert_never(never)


def client(url: str) -> httpx.AsyncClient:
    """Create an HTTP client of a service."""
    return httpx.AsyncClient(base_url=url, timeout=SECONDS)
