"""HTTP responses of a service: problem+json as errors, and server-sent events.

A problem becomes the error it was made from, so that one place shows all errors.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
from pydantic import BaseModel, ValidationError

from turnlog.events.errors import Conflict, Corrupt, Refused, TurnlogError, Unavailable

_MOVED, _CORRUPT, _UNAVAILABLE = "conflict", "corrupt", "unavailable"


class _ProblemDetails(BaseModel):
    code: str
    detail: str
    field: str | None = None
    fix: str | None = None
    sequence: int | None = None


@contextmanager
def map_transport_errors(url: str) -> Generator[None]:
    """Raise `Unavailable` if the service cannot be reached."""
    try:
        yield
    except httpx.HTTPError as error:
        detail = f"{url} does not answer ({type(error).__name__})"
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
        case _ProblemDetails(code=code) if code == _CORRUPT:
            return Corrupt("the record", problem.detail)
        case _ProblemDetails(code=code) if code == _UNAVAILABLE:
            seconds = float(answer.headers.get("Retry-After", "1"))
            return Unavailable("the service", problem.detail, retry_after=seconds)
        case _:
            fix = problem.fix or ""
            return Refused(problem.code, problem.detail, field=problem.field, fix=fix)


@dataclass(frozen=True, slots=True)
class SseFrame:
    """One server-sent event."""

    name: str
    data: str
    cursor: str
    """The value to send back as `Last-Event-ID`."""


async def parse_sse_frames(lines: AsyncIterator[str]) -> AsyncGenerator[SseFrame]:
    """Parse the events of an SSE stream; comments (keep-alives) are skipped."""
    name, cursor, data = "message", "", list[str]()
    async for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                name = value
            case "id":
                cursor = value
            case "data":
                data.append(value)
            case "" if not line:
                if data:
                    yield SseFrame(name, "\n".join(data), cursor)
                name, data = "message", []
            case _:
                pass
