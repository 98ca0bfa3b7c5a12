"""Connections to a service: a reader, a plain client, or one command.

If no service runs, the data directory's nats-server, the read models and a gateway on a free
loopback port are started, so the same code answers. No worker is started, so no session changes
meanwhile.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar, assert_never
from uuid import uuid4

import httpx
from pydantic import JsonValue

from turnlog.contract.payload_models import ResponseModel
from turnlog.services.cli.client.http_responses import send_request
from turnlog.services.cli.client.service_location import (
    RunningService,
    UnservedDirectory,
    locate_data,
    require_service,
)
from turnlog.services.cli.client.service_reader import TIMEOUT_SECONDS, ServiceReader
from turnlog.services.cli.options import ReadTarget, ServiceTarget


@asynccontextmanager
async def open_reader(
    target: ReadTarget, *, with_read_models: bool
) -> AsyncGenerator[ServiceReader]:
    """Yield a reader of `target`; `with_read_models` is needed for lists."""
    place = locate_data(target.url, target.data_dir)
    match place:
        case RunningService(url=url):
            async with create_client(url) as reached:
                yield ServiceReader(reached)
        case UnservedDirectory(path=path):
            # A service in this process needs imports that no other path needs.
            from turnlog.services.cli.client.local_service import run_local_service  # noqa: PLC0415

            async with (
                run_local_service(path, target.tenant, with_read_models=with_read_models) as url,
                create_client(url) as reached,
            ):
                yield ServiceReader(reached, is_live=False)
        case _ as never:
            assert_never(never)


def create_client(url: str) -> httpx.AsyncClient:
    """Create an HTTP client of a service."""
    return httpx.AsyncClient(base_url=url, timeout=TIMEOUT_SECONDS)


CommandBody = Mapping[str, JsonValue]

AnswerT = TypeVar("AnswerT", bound=ResponseModel)


async def send_command(
    target: ServiceTarget, method: str, path: str, body: CommandBody, answer_type: type[AnswerT]
) -> AnswerT:
    """Send a command to the service of `target`; raises `Refused` if none runs."""
    async with create_client(require_service(target).url) as client:
        return await send_client_command(
            client=client, method=method, path=path, body=body, answer_type=answer_type
        )


async def send_client_command(
    client: httpx.AsyncClient,
    method: str,
    path: str,
    body: CommandBody,
    answer_type: type[AnswerT],
) -> AnswerT:
    """Send a command under a new idempotency key and return the parsed answer.

    Fields of `body` that are None are left out.
    """
    fields = {name: value for name, value in body.items() if value is not None}
    headers = {"Idempotency-Key": uuid4().hex}
    request = client.build_request(method, path, json=fields, headers=headers)
    return answer_type.model_validate_json((await send_request(client, request)).content)
