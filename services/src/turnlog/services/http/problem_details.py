"""Error responses: errors as problem details (RFC 9457), by the catalogue of codes.

Every response that is not a success has this form, whether a domain rule, payload validation, a
limit or routing raised the error. It has a code for programs, the field at fault and a fix. It
repeats nothing of the request except what looks like a name, and contains no traceback.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from turnlog.contract.usage_payloads import LimitUseView
from turnlog.events.errors import (
    Conflict,
    Corrupt,
    KeysErased,
    LogRolledBack,
    Refused,
    Unavailable,
    UnreadableEnd,
)
from turnlog.projections.blueprint.sent_names import format_sent_name
from turnlog.projections.blueprint.validation.blueprint_faults import FaultyBlueprint
from turnlog.projections.quotas.quota_decisions import QuotaExceeded
from turnlog.services.api.published_errors.error_catalogue import get_error_code
from turnlog.services.api.published_errors.error_code import INVALID_VALUE_STATUS
from turnlog.services.api.quota_answers import create_limit_use
from turnlog.services.identity.rate_limits import TooManyRequests

PROBLEM_MEDIA_TYPE: Final = "application/problem+json"

ROUTING_CODES: Final[Mapping[int, str]] = {404: "unknown-route", 405: "method-not-allowed"}

MAX_FAULTS: Final = 20
"""The maximum number of faults in one response, so that it stays smaller than the request."""


class RequestFault(BaseModel):
    """One of several faults of a request."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    field: str
    """The dotted path of the field, such as `inputs.locale`."""
    detail: str
    """What is wrong with the field."""


class ProblemDetails(BaseModel):
    """What went wrong and how to fix it (RFC 9457)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    quota: LimitUseView | None = None
    """The limit of the user that refused a turn."""


def create_problem(
    status: int,
    code: str,
    detail: str,
    *,
    field: str | None = None,
    fix: str = "",
    sequence: int | None = None,
    faults: Sequence[RequestFault] = (),
    quota: LimitUseView | None = None,
) -> ProblemDetails:
    """Return the problem details for a code; type, title and the usual fix follow from it."""
    return ProblemDetails(
        type=f"urn:turnlog:problem:{code}",
        title=code.replace("-", " ").capitalize(),
        status=status,
        detail=detail,
        code=code,
        field=field,
        fix=fix or get_error_code(code).action or None,
        sequence=sequence,
        faults=tuple(faults) or None,
        quota=quota,
    )


FORK_FIX: Final = "fork the session at event {sequence}, the last one of it, and go on in the fork"

OTHER_ID_FIX: Final = "use another id; `turnlog verify --all` names the message"


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
        case QuotaExceeded(code=code, detail=detail, fix=fix, use=use):
            return create_problem(429, code, detail, fix=fix, quota=create_limit_use(use))
        case Refused(code=code, detail=detail, field=field, fix=fix):
            return create_problem(
                get_error_code(code).status or INVALID_VALUE_STATUS,
                code,
                detail,
                field=field,
                fix=fix,
            )
        case Conflict(actual=actual):
            return create_problem(409, "conflict", str(error), sequence=actual)
        case Unavailable():
            return create_problem(503, "unavailable", str(error))
        case LogRolledBack():
            return create_problem(503, "log-rolled-back", str(error))
        case UnreadableEnd(sequence=sequence):
            fix = FORK_FIX.format(sequence=sequence) if sequence else OTHER_ID_FIX
            return create_problem(
                409, "session-unreadable", str(error), fix=fix, sequence=sequence or None
            )
        case KeysErased():
            return create_problem(410, "erased", str(error))
        case Corrupt():
            return create_problem(500, "corrupt", str(error))
        case RequestValidationError():
            return _convert_validation_error(error)
        case HTTPException(status_code=status):
            return create_problem(status, ROUTING_CODES.get(status, "refused"), str(error.detail))
        case _:
            return create_problem(500, "bug", "unexpected error in the gateway")


def _convert_validation_error(error: RequestValidationError) -> ProblemDetails:
    found: Sequence[Mapping[str, Any]] = error.errors()
    reported = found[:MAX_FAULTS]
    faults = [
        RequestFault(field=_format_location(each["loc"]), detail=each["msg"]) for each in reported
    ]
    fix = _suggest_fix(found[0], faults[0].field)
    detail = f"{faults[0].field}: {faults[0].detail}"
    return create_problem(
        INVALID_VALUE_STATUS, "invalid", detail, field=faults[0].field, fix=fix, faults=faults
    )


_TYPE_FIXES: Final = {
    "bool_type": "send `true` or `false`",
    "dict_type": "send an object",
    "float_type": "send a number",
    "int_parsing": "send a whole number",
    "int_type": "send a whole number",
    "list_type": "send a list",
    "model_attributes_type": "send an object",
    "model_type": "send an object",
    "string_type": "send a text",
    "tuple_type": "send a list",
}
"""What to send instead of a value of another type, by pydantic's name of the error."""

_LIMIT_FIXES: Final = {
    "greater_than_equal": "send {ge} or more",
    "less_than_equal": "send {le} or less",
    "literal_error": "send one of: {expected}",
    "string_pattern_mismatch": "send what matches {pattern}",
    "string_too_long": "send at most {max_length} characters",
    "string_too_short": "send at least {min_length} character(s)",
    "too_long": "send at most {max_length}",
    "too_short": "send at least {min_length}",
}
"""The same for a value beyond a limit, with the names of pydantic's context."""


def _suggest_fix(error: Mapping[str, Any], field: str) -> str:
    kind, context = str(error["type"]), error.get("ctx", {})
    match kind:
        case "extra_forbidden":
            return "leave it out"
        case "missing":
            return f"add {field}"
        case _ if kind in _LIMIT_FIXES and context:
            return _LIMIT_FIXES[kind].format_map(context)
        case _:
            return _TYPE_FIXES.get(kind, "change the value")


def _format_location(loc: Sequence[str | int]) -> str:
    return ".".join(format_sent_name(str(step)) for step in loc[1:]) or str(loc[0])


def create_error_response(error: Exception, *, closing: bool = False) -> Response:
    """Return the response for an error.

    `closing` makes the server close the connection after it.
    """
    problem = convert_error(error)
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    if isinstance(error, Unavailable | QuotaExceeded | TooManyRequests):
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after)))
    seconds = get_error_code(problem.code).retry_after
    if seconds is not None:
        headers["Retry-After"] = str(seconds)
    if closing:
        headers["Connection"] = "close"
    content = problem.model_dump(mode="json", exclude_none=True)
    return JSONResponse(content, problem.status, headers, media_type=PROBLEM_MEDIA_TYPE)


async def handle_error(request: Request, error: Exception) -> Response:
    """Return the response for an error that a route handler raised."""
    del request
    return create_error_response(error)
