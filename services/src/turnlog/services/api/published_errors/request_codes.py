"""Codes of requests that are not understood: their form, their values, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from turnlog.services.api.published_errors.error_code import ErrorCode, ExitCode

REQUEST_CODES: Final[Mapping[str, ErrorCode]] = {
    "actor-not-configured": ErrorCode(
        "A request names its user, and the operator trusts no proxy to do that.",
        "leave the header out",
        status=HTTPStatus.BAD_REQUEST,
        contains=("field",),
    ),
    "actor-not-trusted": ErrorCode(
        "A request names its user, and does not come from a trusted proxy.",
        "send it through the proxy, or leave the header out",
        status=HTTPStatus.BAD_REQUEST,
        contains=("field",),
    ),
    "bad-actor": ErrorCode(
        "The user that a trusted proxy named is missing, repeated or no name.",
        "correct the proxy, which has to send one name",
        status=HTTPStatus.BAD_REQUEST,
        contains=("field",),
    ),
    "bad-cursor": ErrorCode(
        "A cursor is not one of this stream, or of an attempt that there was not.",
        "send the id of the last event you received, or none to start from the beginning",
        status=HTTPStatus.BAD_REQUEST,
        contains=("field",),
    ),
    "bad-digest": ErrorCode(
        "A digest is not `sha256:` and 64 hexadecimal digits.",
        "send a digest as Turnlog wrote it",
        contains=("field",),
    ),
    "bad-display": ErrorCode(
        "The form of a turn for display is not one that the turn can have.",
        "send the form that `fix` names",
        contains=("field",),
    ),
    "bad-id": ErrorCode(
        "An id has other characters than `A-Z a-z 0-9 _ -`, none, or more than 64.",
        "use 1 to 64 of the characters A-Z a-z 0-9 _ -",
        exit_code=ExitCode.USAGE,
        contains=("field",),
    ),
    "bad-json": ErrorCode(
        "A body is not JSON in UTF-8.",
        "send one JSON object in UTF-8",
        status=HTTPStatus.BAD_REQUEST,
        contains=("field",),
    ),
    "bad-key": ErrorCode(
        "An `Idempotency-Key` is repeated, empty, too long or not printable; or a file is no key.",
        "send one key of 1 to 200 printable characters",
        status=HTTPStatus.BAD_REQUEST,
        contains=("field",),
    ),
    "bad-key-value": ErrorCode(
        "A value of a session's key is too long to find the session by.",
        "choose a shorter value",
        contains=("field",),
    ),
    "bad-number": ErrorCode(
        "A number is too large, or JSON parsers disagree about its value.",
        "send it as text",
        contains=("field",),
    ),
    "bad-phase": ErrorCode(
        "A request names neither a signal nor a phase, or names both.",
        "send one of the two",
        contains=("field",),
    ),
    "bad-request": ErrorCode(
        "The head of a request is not HTTP.",
        "send an HTTP/1.1 request",
        status=HTTPStatus.BAD_REQUEST,
        contains=("field",),
    ),
    "bad-text": ErrorCode(
        "A text has a NUL or half of a surrogate pair.",
        "remove the character",
        contains=("field",),
    ),
    "behind": ErrorCode(
        "The read models did not reach `min_sequence` within five seconds.",
        "send the request again",
        status=HTTPStatus.GATEWAY_TIMEOUT,
        contains=("field", "Retry-After"),
        retry_after=1,
    ),
    "cross-site": ErrorCode(
        "The page of another site sent the request.",
        "use the gateway's own page, or a proxy that passes on Host as it is",
        status=HTTPStatus.FORBIDDEN,
        contains=("field",),
    ),
    "duplicate-key": ErrorCode(
        "A key is repeated within a JSON object.",
        "send it once",
        contains=("field",),
    ),
    "future-cursor": ErrorCode(
        "A cursor is beyond the end of the stream.",
        "use a cursor from this stream, or none to start at the beginning",
        contains=("field",),
    ),
    "given-twice": ErrorCode(
        "A value is given under two of its names.",
        "leave out one of the two",
        contains=("field",),
    ),
    "invalid": ErrorCode(
        "A field, parameter or option is unknown, missing, or has an impossible value.",
        "change the field that is named",
        exit_code=ExitCode.USAGE,
        contains=("field", "faults"),
    ),
    "key-reused": ErrorCode(
        "The same `Idempotency-Key` was used before with another request.",
        "use a new key for a new request",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "method-not-allowed": ErrorCode(
        "The route has no such method.",
        "see /openapi.json for the routes",
        status=HTTPStatus.METHOD_NOT_ALLOWED,
    ),
    "missing-value": ErrorCode(
        "An attribute or input that the blueprint requires is missing.",
        "add it",
        contains=("field",),
    ),
    "not-acceptable": ErrorCode(
        "The route has none of the media types that the request accepts.",
        "accept one that the route has",
        status=HTTPStatus.NOT_ACCEPTABLE,
        contains=("field",),
    ),
    "not-there-yet": ErrorCode(
        "A sequence or position is beyond the end of the session or the log.",
        "send a sequence that exists",
        exit_code=ExitCode.NOT_FOUND,
        retry="later",
        contains=("field",),
    ),
    "refused": ErrorCode(
        "HTTP itself refused the request, with the status of the answer.",
        "see /openapi.json for the routes",
        status=HTTPStatus.BAD_REQUEST,
    ),
    "too-deep": ErrorCode(
        "JSON is nested deeper than 64 levels.",
        "send it as text",
        contains=("field",),
    ),
    "too-large": ErrorCode(
        "A body, a text or a value has more bytes than are taken.",
        "send less",
        status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        contains=("field",),
    ),
    "too-many-filters": ErrorCode(
        "A list is filtered by too many attributes.",
        "filter by fewer",
        contains=("field",),
    ),
    "too-many-values": ErrorCode(
        "A body has too many values.",
        "send it in several requests",
        contains=("field",),
    ),
    "too-slow": ErrorCode(
        "The head or the body of the request was not sent within ten seconds.",
        "send it in one go",
        status=HTTPStatus.REQUEST_TIMEOUT,
        retry="later",
        contains=("field",),
    ),
    "unknown-host": ErrorCode(
        "The request is addressed to a host that the gateway does not have.",
        "use localhost, or name the host in TURNLOG_HOSTS",
        status=HTTPStatus.MISDIRECTED_REQUEST,
        contains=("field",),
    ),
    "unknown-kind": ErrorCode(
        "The blueprint has no call of this name.",
        "name a call of the blueprint",
        exit_code=ExitCode.USAGE,
        contains=("field",),
    ),
    "unknown-route": ErrorCode(
        "There is no such route.",
        "see /openapi.json for the routes",
        status=HTTPStatus.NOT_FOUND,
    ),
    "unknown-type": ErrorCode(
        "There is no event type of this name.",
        "name event types as in `turnlog tail --help`",
        exit_code=ExitCode.USAGE,
        contains=("field",),
    ),
    "unknown-value": ErrorCode(
        "The blueprint has no attribute or input of this name.",
        "leave it out, or write the name that `fix` gives",
        contains=("field",),
    ),
    "unsupported-encoding": ErrorCode(
        "The body is compressed.",
        "send it as it is",
        status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        contains=("field",),
    ),
    "unsupported-media": ErrorCode(
        "The body is not declared as JSON.",
        "send `Content-Type: application/json`",
        status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        contains=("field",),
    ),
    "value-not-allowed": ErrorCode(
        "An attribute or input has a value outside of its list, range or pattern.",
        "send a value that the blueprint allows",
        contains=("field",),
    ),
    "wrong-type": ErrorCode(
        "An attribute or input is not of the type that the blueprint declares.",
        "send a value of the declared type",
        contains=("field",),
    ),
    "user-not-trusted": ErrorCode(
        "A field of a request names its user, where only a trusted proxy may.",
        "leave the field out",
        status=HTTPStatus.BAD_REQUEST,
        contains=("field",),
    ),
}
