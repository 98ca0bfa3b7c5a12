"""Error responses: the table from error codes to HTTP status, as problem details (RFC 9457).

Every response that is not a success has this form, whether a domain rule, payload validation, a
limit or routing raised the error. It has a code for programs, the field at fault and a fix. It
repeats nothing of the request except names, and contains no traceback.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from turnlog.events.errors import Conflict, Corrupt, LogRolledBack, Refused, Unavailable
from turnlog.projections.blueprint.validation.blueprint_faults import FaultyBlueprint

PROBLEM_MEDIA_TYPE: Final = "application/problem+json"

STATUS_BY_CODE: Final[Mapping[str, HTTPStatus]] = {
    "actor-not-configured": HTTPStatus.BAD_REQUEST,
    "actor-not-trusted": HTTPStatus.BAD_REQUEST,
    "already-redacted": HTTPStatus.CONFLICT,
    "approval-decided": HTTPStatus.CONFLICT,
    "approval-overdue": HTTPStatus.CONFLICT,
    "bad-actor": HTTPStatus.BAD_REQUEST,
    "bad-cursor": HTTPStatus.BAD_REQUEST,
    "bad-json": HTTPStatus.BAD_REQUEST,
    "bad-key": HTTPStatus.BAD_REQUEST,
    "bad-request": HTTPStatus.BAD_REQUEST,
    "blueprint-changed": HTTPStatus.CONFLICT,
    "blueprint-does-not-fit": HTTPStatus.CONFLICT,
    "behind": HTTPStatus.GATEWAY_TIMEOUT,
    "busy": HTTPStatus.TOO_MANY_REQUESTS,
    "choice-not-offered": HTTPStatus.CONFLICT,
    "cross-site": HTTPStatus.FORBIDDEN,
    "key-reused": HTTPStatus.CONFLICT,
    "no-front-door": HTTPStatus.NOT_FOUND,
    "no-phases": HTTPStatus.CONFLICT,
    "no-tools": HTTPStatus.CONFLICT,
    "no-reply": HTTPStatus.CONFLICT,
    "not-acceptable": HTTPStatus.NOT_ACCEPTABLE,
    "not-at-a-boundary": HTTPStatus.CONFLICT,
    "not-answered": HTTPStatus.BAD_GATEWAY,
    "not-in-time": HTTPStatus.GATEWAY_TIMEOUT,
    "not-installed": HTTPStatus.NOT_ACCEPTABLE,
    "not-stopped": HTTPStatus.NOT_FOUND,
    "nothing-to-cancel": HTTPStatus.CONFLICT,
    "phase-takes-no-turns": HTTPStatus.CONFLICT,
    "queue-full": HTTPStatus.TOO_MANY_REQUESTS,
    "reply-withheld": HTTPStatus.CONFLICT,
    "result-gone": HTTPStatus.GONE,
    "session-closed": HTTPStatus.CONFLICT,
    "segment-moved": HTTPStatus.CONFLICT,
    "segment-taken": HTTPStatus.CONFLICT,
    "session-exists": HTTPStatus.CONFLICT,
    "fork-unfinished": HTTPStatus.CONFLICT,
    "signal-not-offered": HTTPStatus.CONFLICT,
    "still-stopped": HTTPStatus.CONFLICT,
    "too-large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "too-slow": HTTPStatus.REQUEST_TIMEOUT,
    "turn-not-open": HTTPStatus.CONFLICT,
    "turn-open": HTTPStatus.CONFLICT,
    "unknown-approval": HTTPStatus.NOT_FOUND,
    "unknown-blueprint": HTTPStatus.NOT_FOUND,
    "unknown-call": HTTPStatus.NOT_FOUND,
    "unknown-host": HTTPStatus.MISDIRECTED_REQUEST,
    "unknown-segment": HTTPStatus.NOT_FOUND,
    "unknown-session": HTTPStatus.NOT_FOUND,
    "unknown-stay": HTTPStatus.NOT_FOUND,
    "unknown-summary": HTTPStatus.NOT_FOUND,
    "unknown-tool-use": HTTPStatus.NOT_FOUND,
    "unknown-turn": HTTPStatus.NOT_FOUND,
    "unsupported-encoding": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    "unsupported-media": HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
}
"""The HTTP status of each refusal code; other codes are answered with `INVALID_VALUE_STATUS`."""

INVALID_VALUE_STATUS: Final = HTTPStatus.UNPROCESSABLE_ENTITY

FIX_BY_CODE: Final[Mapping[str, str]] = {
    "already-redacted": "nothing is left to do",
    "no-reply": "choose a turn that was completed; `/history` shows them",
    "session-closed": "open another session",
    "unknown-call": "see `/calls` for the calls of the session",
    "unknown-segment": "see `/v1/segments` for the segments",
    "unknown-session": "see `/v1/sessions` for the sessions",
    "unknown-tool-use": "see `tools` of the turn in `/history`",
    "unknown-turn": "see `/history` for the turns of the session",
}
"""The fix of codes that are raised by layers which do not know HTTP."""

RETRY_AFTER_BY_CODE: Final[Mapping[str, int]] = {
    "queue-full": 1,
    "behind": 1,
    "not-in-time": 1,
    "busy": 5,
}
"""The `Retry-After` value in seconds, for codes where a retry may succeed."""

ROUTING_CODES: Final[Mapping[int, str]] = {404: "unknown-route", 405: "method-not-allowed"}

MAX_FAULTS: Final = 20
"""The maximum number of faults in one response, so that it stays smaller than the request."""


class RequestFault(BaseModel):
    """One of several faults of a request."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    field: str
    """The dotted path of the field, such as `inputs.locale`."""
    detail: str
    """What is wrong with the field."""


class ProblemDetails(BaseModel):
    """What went wrong and how to fix it (RFC 9457)."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    type: str
    """`urn:turnlog:problem:` followed by the code."""
    title: str
    """The code as words; the same for all problems of this type."""
    status: int
    """The HTTP status of the response."""
    detail: str
    """What went wrong in this request, for people."""
    code: str
    """The error code, for programs."""
    field: str | None = None
    """The field, parameter or header at fault."""
    fix: str | None = None
    """How to fix the request."""
    sequence: int | None = None
    """The current sequence of the session, when the request conflicted with newer events."""
    faults: tuple[RequestFault, ...] | None = None
    """All faults of the request, at most twenty, when the whole request was validated."""


def create_problem(
    status: int,
    code: str,
    detail: str,
    *,
    field: str | None = None,
    fix: str = "",
    sequence: int | None = None,
    faults: Sequence[RequestFault] = (),
) -> ProblemDetails:
    """Return the problem details for a code; type and title follow from it."""
    return ProblemDetails(
        type=f"urn:turnlog:problem:{code}",
        title=code.replace("-", " ").capitalize(),
        status=status,
        detail=detail,
        code=code,
        field=field,
        fix=fix or None,
        sequence=sequence,
        faults=tuple(faults) or None,
    )


def convert_error(error: Exception) -> ProblemDetails:
    """Return the problem details that describe an error to the client."""
    match error:
        case FaultyBlueprint(code=code, detail=detail, field=field, fix=fix, faults=found):
            faults = [
                RequestFault(field=each.path or "blueprint", detail=str(each)) for each in found
            ]
            return create_problem(
                INVALID_VALUE_STATUS, code, detail, field=field, fix=fix, faults=faults
            )
        case Refused(code=code, detail=detail, field=field, fix=fix):
            fix = fix or FIX_BY_CODE.get(code, "")
            return create_problem(
                STATUS_BY_CODE.get(code, INVALID_VALUE_STATUS), code, detail, field=field, fix=fix
            )
        case Conflict(actual=actual):
            fix = "read the session again, and repeat the request if it still applies"
            return create_problem(409, "conflict", str(error), fix=fix, sequence=actual)
        case Unavailable():
            fix = "send the very same request again"
            return create_problem(503, "unavailable", str(error), fix=fix)
        case LogRolledBack():
            fix = "tell the operator; writes are accepted again when log and read models agree"
            return create_problem(503, "log-rolled-back", str(error), fix=fix)
        case Corrupt():
            fix = "tell the operator; `verify` names the first bad event"
            return create_problem(500, "corrupt", str(error), fix=fix)
        case RequestValidationError():
            return _convert_validation_error(error)
        case HTTPException(status_code=status):
            fix = "see /openapi.json for the routes"
            return create_problem(
                status, ROUTING_CODES.get(status, "refused"), str(error.detail), fix=fix
            )
        case _:
            fix = "tell the operator; the log of the gateway says more"
            return create_problem(500, "bug", "unexpected error in the gateway", fix=fix)


def _convert_validation_error(error: RequestValidationError) -> ProblemDetails:
    found: Sequence[Mapping[str, Any]] = error.errors()
    reported = found[:MAX_FAULTS]
    faults = [
        RequestFault(field=_format_location(each["loc"]), detail=each["msg"]) for each in reported
    ]
    first = found[0]
    match first["type"]:
        case "extra_forbidden":
            fix = "leave it out"
        case "missing":
            fix = f"add {faults[0].field}"
        case _:
            fix = "change the value"
    detail = f"{faults[0].field}: {faults[0].detail}"
    return create_problem(
        INVALID_VALUE_STATUS, "invalid", detail, field=faults[0].field, fix=fix, faults=faults
    )


def _format_location(loc: Sequence[str | int]) -> str:
    return ".".join(str(step)[:80] for step in loc[1:]) or str(loc[0])


def create_error_response(error: Exception, *, closing: bool = False) -> Response:
    """Return the response for an error.

    `closing` makes the server close the connection after it.
    """
    problem = convert_error(error)
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    if isinstance(error, Unavailable):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    if problem.code in RETRY_AFTER_BY_CODE:
        headers["Retry-After"] = str(RETRY_AFTER_BY_CODE[problem.code])
    if closing:
        headers["Connection"] = "close"
    content = problem.model_dump(mode="json", exclude_none=True)
    return JSONResponse(content, problem.status, headers, media_type=PROBLEM_MEDIA_TYPE)


async def handle_error(request: Request, error: Exception) -> Response:
    """Return the response for an error that a route handler raised."""
    del request
    return create_error_response(error)
