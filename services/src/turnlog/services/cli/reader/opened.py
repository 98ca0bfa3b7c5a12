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

from turnlog.services.cli.options import ReadTarget
from turnlog.services.cli.place import UnservedDirectory, RunningService, locate_data
from turnlog.services.cli.reader.reader import TIMEOUT_SECONDS, ServiceReader


@asynccontextmanager
async def open_reader(target: ReadTarget, *, with_read_models: bool) -> AsyncGenerator[ServiceReader]:
    """Yield a reader of `target`; `with_read_models` is needed for lists."""
    place = locate_data(target.url, target.data_dir)
    match place:
        case RunningService(url=url):
            async with create_client(url) as reached:
                yield ServiceReader(reached)
        case UnservedDirectory(path=path):
            # A service in this process needs imports that no other path needs.
            from turnlog.services.cli.reader.service import run_local_service  # noqa: PLC0415

            async with run_local_service(path, target.tenant, rows=with_read_models) as url, create_client(url) as reached:
                yield ServiceReader(reached, is_live=False)
        case _ as never:
            assert_never(never)


def create_client(url: str) -> httpx.AsyncClient:
    """Create an HTTP client of a service."""
    return httpx.AsyncClient(base_url=url, timeout=TIMEOUT_SECONDS)
