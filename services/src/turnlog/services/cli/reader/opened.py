"""Opening what is to be read: a running service, or one started for the moment it takes.

Where no service runs, the data directory's own nats-server, the read models and a gateway on a
free port of loopback are started: the same code answers, so the same question has the same
answer. No worker is started, so nothing happens to a session meanwhile.
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
    """Give a reader of the place that the options name; `rows` where it will ask for lists."""
    place = find(asked.url, asked.data_dir)
    match place:
        case Service(url=url):
            async with client(url) as reached:
                yield Reader(reached)
        case Directory(path=path):
            # A service in this very process takes imports that nobody else needs.
            from turnlog.services.cli.reader.service import serving  # noqa: PLC0415

            async with serving(path, asked.tenant, rows=rows) as url, client(url) as reached:
                yield Reader(reached, live=False)
        case _ as never:
            assert_never(never)


def client(url: str) -> httpx.AsyncClient:
    """Make a client of a service."""
    return httpx.AsyncClient(base_url=url, timeout=SECONDS)
