"""The service as commands reach it: the client package with the errors that this program shows.

Each request is sent once, for a person is waiting, and an upload goes on where it broke off. If no
service runs, the data directory's nats-server, the read models and a gateway on a free loopback
port are started, so the same code answers. No worker is started, so no session changes meanwhile.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar, assert_never

import httpx
from pydantic import TypeAdapter, ValidationError

from turnlog.client import AsyncTurnlogClient, ClientOperation, RequestFailed, UnusableAnswer
from turnlog.client.sse_events import SseMessage
from turnlog.client.tenant_operations import UNSPECIFIED_TYPE, BlobUpload
from turnlog.client.trusted_certificates import create_tls_context
from turnlog.contract.turn_payloads import StoredBlobView
from turnlog.events.errors import Conflict, Corrupt, Refused, TurnlogError, Unavailable
from turnlog.services.cli.account_file import find_key
from turnlog.services.cli.client.service_location import (
    RunningService,
    UnservedDirectory,
    locate_data,
    require_service,
)
from turnlog.services.cli.options import ReadTarget, ServiceTarget

TIMEOUT_SECONDS: Final = 60.0
"""Read timeout in seconds; event streams send a keep-alive more often than that."""

LONG_TIMEOUT_SECONDS: Final = 600.0
"""Read timeout of requests that read a whole log or a whole session."""

UPLOAD_TRIES: Final = 5
"""How often an upload is begun or gone on with: three seconds, for which a person waits."""

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class ServiceClient:
    """One service."""

    turnlog: AsyncTurnlogClient
    is_live: bool = True
    """Whether new events can arrive; False if the data directory was opened without a service."""

    async def __aenter__(self) -> Self:
        """Return the client itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close all connections."""
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self.turnlog.close()

    async def send(self, operation: ClientOperation[AnswerT]) -> AnswerT:
        """Return the answer of an operation; raises `Refused` for that of another release."""
        with self._convert_failures():
            response = await self.turnlog.request(operation)
        return _parse_answer(operation, response)

    async def upload_bytes(self, content: bytes) -> StoredBlobView:
        """Store bytes, whose type the service finds; after a broken connection the rest is sent."""
        upload = BlobUpload(content, UNSPECIFIED_TYPE)
        with self._convert_failures():
            return await self.turnlog.send_upload(upload, max_tries=UPLOAD_TRIES)

    @asynccontextmanager
    async def open_response(
        self, operation: ClientOperation[Any]
    ) -> AsyncGenerator[httpx.Response]:
        """Yield the response to an operation, whose body is still to be read."""
        with self._convert_failures():
            async with self.turnlog.open_response(operation) as response:
                yield response

    async def stream_lines(self, operation: ClientOperation[Any]) -> AsyncGenerator[str]:
        """Yield the lines of an answer; raises `Unavailable` if the service breaks off."""
        with self._convert_failures():
            async with aclosing(self.turnlog.stream_lines(operation)) as lines:
                async for line in lines:
                    yield line

    async def stream_messages(self, operation: ClientOperation[Any]) -> AsyncGenerator[SseMessage]:
        """Yield the server-sent events of an answer; raises as `stream_lines`."""
        with self._convert_failures():
            async with aclosing(self.turnlog.stream_messages(operation)) as messages:
                async for message in messages:
                    yield message

    @contextmanager
    def _convert_failures(self) -> Generator[None]:
        try:
            yield
        except RequestFailed as failure:
            raise convert_failure(failure, self.turnlog.url) from failure


def _parse_answer(operation: ClientOperation[AnswerT], response: httpx.Response) -> AnswerT:
    """Return an answer with all of its fields, for the JSON of a command is the answer."""
    try:
        return TypeAdapter(operation.answer).validate_json(response.content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        detail = f"{operation.path}: {first['msg']} at {place}"
        fix = "use the command line of the service's own release"
        raise Refused("other-release", detail, fix=fix) from None


def convert_failure(failure: RequestFailed, url: str) -> TurnlogError:
    """Return the error from which a service at `url` made its answer, or why there was none."""
    if isinstance(failure, UnusableAnswer):
        return Unavailable("the service", f"{url}: {failure.detail}")
    code, detail = failure.problem.get("code"), failure.problem.get("detail")
    if failure.status is None:
        reason = type(failure.__cause__).__name__
        return Unavailable("the service", f"{url} does not answer ({reason})")
    if code is None or detail is None:  # A proxy answered instead.
        return Unavailable("the service", f"{failure.url} answered {failure.status}")
    match code:
        case "conflict":
            return Conflict("here", 0, failure.problem.get("sequence"))
        case "corrupt" | "log-rolled-back":
            return Corrupt("the record", detail)
        case "unavailable":
            seconds = 1.0 if failure.retry_after is None else failure.retry_after
            return Unavailable("the service", detail, retry_after=seconds)
        case _:
            return Refused(code, detail, field=failure.field, fix=failure.fix or "")


def create_client(url: str, key: str | None = None) -> ServiceClient:
    """Create a client of the service at an address, which may ask for a key."""
    http = httpx.AsyncClient(timeout=TIMEOUT_SECONDS, verify=create_tls_context(url))
    return ServiceClient(AsyncTurnlogClient(url, key=key, max_tries=1, http=http))


def create_running_client(running: RunningService) -> ServiceClient:
    """Create a client of a running service, with the key that there is for it."""
    return create_client(running.url, find_key(running.url))


@asynccontextmanager
async def open_service(
    target: ReadTarget, *, with_read_models: bool
) -> AsyncGenerator[ServiceClient]:
    """Yield a client of `target`; `with_read_models` is needed for lists."""
    place = locate_data(target.url, target.data_dir)
    match place:
        case RunningService():
            async with create_running_client(place) as service:
                yield service
        case UnservedDirectory(path=path):
            # A service in this process needs imports that no other path needs.
            from turnlog.services.cli.client.local_service import run_local_service  # noqa: PLC0415

            async with (
                run_local_service(path, target.tenant, with_read_models=with_read_models) as url,
                create_client(url) as service,
            ):
                yield ServiceClient(service.turnlog, is_live=False)
        case _ as never:
            assert_never(never)


async def send_command(target: ServiceTarget, operation: ClientOperation[AnswerT]) -> AnswerT:
    """Send a command to the service of `target`; raises `Refused` if none runs."""
    async with create_running_client(require_service(target)) as service:
        return await service.send(operation)
