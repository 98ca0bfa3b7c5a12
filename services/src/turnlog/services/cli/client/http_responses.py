"""HTTP responses of a service: whole, as lines or as server-sent events; problem+json as errors.

A problem becomes the error it was made from, so that one place shows all errors.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Final

import httpx
from pydantic import BaseModel, ValidationError

from turnlog.client.sse_events import SseDecoder, SseMessage
from turnlog.events.errors import Conflict, Corrupt, Refused, TurnlogError, Unavailable

_MOVED, _UNAVAILABLE = "conflict", "unavailable"
_CORRUPT = frozenset({"corrupt", "log-rolled-back"})


class _ProblemDetails(BaseModel):
    code: str
    detail: str
    field: str | None = None
    fix: str | None = None
    sequence: int | None = None


async def send_request(client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    """Return the successful response to a request.

    Raises the error that another response describes, and `Unavailable` if there is no response.
    """
    with _map_transport_errors(client):
        response = await client.send(request)
    return require_success(response)


@asynccontextmanager
async def open_response(
    client: httpx.AsyncClient, request: httpx.Request
) -> AsyncGenerator[httpx.Response]:
    """Yield the successful response to a request, whose body is still to be read.

    Raises as `send_request` does, also when the service breaks off while the body is read.
    """
    with _map_transport_errors(client):
        response = await client.send(request, stream=True)
        async with aclosing(response):
            if not response.is_success:
                await response.aread()
            yield require_success(response)


async def stream_lines(client: httpx.AsyncClient, request: httpx.Request) -> AsyncGenerator[str]:
    """Yield the lines of the response to a request; see `open_response` for the errors.

    Only a line feed ends a line. `Response.aiter_lines` also splits at characters that JSON has
    within texts, such as U+2028.
    """
    incomplete = bytearray()
    async with open_response(client, request) as response:
        async for piece in response.aiter_bytes():
            incomplete += piece
            if b"\n" in piece:
                *lines, incomplete = incomplete.split(b"\n")
                for line in lines:
                    yield line.removesuffix(b"\r").decode()
    if incomplete:
        yield incomplete.decode()


async def stream_messages(
    client: httpx.AsyncClient, request: httpx.Request
) -> AsyncGenerator[SseMessage]:
    """Yield the server-sent events of the response to a request, as `stream_lines` its lines."""
    decoder = SseDecoder()
    async with open_response(client, request) as response:
        async for piece in response.aiter_bytes():
            for message in decoder.decode_bytes(piece):
                yield message


@contextmanager
def _map_transport_errors(client: httpx.AsyncClient) -> Generator[None]:
    try:
        yield
    except httpx.HTTPError as error:
        detail = f"{client.base_url} does not answer ({type(error).__name__})"
        raise Unavailable("the service", detail) from error


def require_success(answer: httpx.Response) -> httpx.Response:
    """Return a successful response; otherwise raise the error that it describes."""
    if answer.is_success:
        return answer
    raise _build_error(answer)


def _build_error(answer: httpx.Response) -> TurnlogError:
    try:
        problem = _ProblemDetails.model_validate_json(answer.content)
    except ValidationError:
        return Unavailable("the service", f"{answer.url} answered {answer.status_code}")
    match problem:
        case _ProblemDetails(code=code) if code == _MOVED:
            return Conflict("here", 0, problem.sequence)
        case _ProblemDetails(code=code) if code in _CORRUPT:
            return Corrupt("the record", problem.detail)
        case _ProblemDetails(code=code) if code == _UNAVAILABLE:
            seconds = float(answer.headers.get("Retry-After", "1"))
            return Unavailable("the service", problem.detail, retry_after=seconds)
        case _:
            fix = problem.fix or ""
            return Refused(problem.code, problem.detail, field=problem.field, fix=fix)


_PROBLEM_LINE: Final = '{"type":"urn:turnlog:problem:'
"""How the last line begins where lines break off; an event begins with its `specversion`."""


def require_event_line(line: str) -> str:
    """Return a line that is an event; raise the error of a line that says why no more follow."""
    if line.startswith(_PROBLEM_LINE):
        problem = _ProblemDetails.model_validate_json(line)
        raise Corrupt("the record", problem.detail)
    return line
