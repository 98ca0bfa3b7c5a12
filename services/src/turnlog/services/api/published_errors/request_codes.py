"""Codes of requests that are not understood: their form, their values, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from turnlog.services.api.published_errors.error_code import ErrorCode, ExitCode

REQUEST_CODES: Final[Mapping[str, ErrorCode]] = {
    "actor-not-configured": ErrorCode(
        meaning="A request names its user, and the operator trusts no proxy to do that.",
        action="leave the header out",
        status=HTTPStatus.BAD_REQUEST,
        contains=("field",),
    ),
    "actor-not-trusted": ErrorCode(
        meaning="A request names its user, and does not come from a trusted proxy.",
        action="send it through the proxy, or leave the header out",
        status=HTTPStatus.BAD_REQUEST,
        contains=("field",),
    ),
    "bad-actor": ErrorCode(
        meaning="The user of a request is missing, repeated, no name or has a pseudonym's form.",
        action="correct the proxy, which has to send one name, or sign in under another one",
        status=HTTPStatus.BAD_REQUEST,
        contains=("field",),
    ),
    "bad-cursor": ErrorCode(
        meaning="A cursor is not one of this stream, or of an attempt that there was not.",
        action="send the id of the last event you received, or none to start from the beginning",
        status=HTTPStatus.BAD_REQUEST,
        contains=("field",),
    ),
    "bad-digest": ErrorCode(
        meaning="A digest is not `sha256:` or `hmac-sha256:` and 64 hexadecimal digits.",
        action="send a digest as Turnlog wrote it",
        contains=("field",),
    ),
    "bad-display": ErrorCode(
        meaning="The form of a turn for display is not one that the turn can have.",
        action="send the form that `fix` names",
        contains=("field",),
    ),
    "bad-id": ErrorCode(
        meaning="An id has other characters than `A-Z a-z 0-9 _ -`, none, or more than 64.",
        action="use 1 to 64 of the characters A-Z a-z 0-9 _ -",
        exit_code=ExitCode.USAGE,
        contains=("field",),
    ),
    "bad-json": ErrorCode(
        meaning="A body is not JSON in UTF-8.",
        action="send one JSON object in UTF-8",
        status=HTTPStatus.BAD_REQUEST,
        contains=("field",),
    ),
    "bad-key": ErrorCode(
        meaning=(
            "An `Idempotency-Key` is repeated, empty, too long or not printable; or a"
            " file is no key."
        ),
        action="send one key of 1 to 200 printable characters",
        status=HTTPStatus.BAD_REQUEST,
        contains=("field",),
    ),
    "bad-key-value": ErrorCode(
        meaning="A value of a session's key is too long to find the session by.",
        action="choose a shorter value",
        contains=("field",),
    ),
    "bad-number": ErrorCode(
        meaning="A number is too large, or JSON parsers disagree about its value.",
        action="send it as text",
        contains=("field",),
    ),
    "bad-phase": ErrorCode(
        meaning="A request names neither a signal nor a phase, or names both.",
        action="send one of the two",
        contains=("field",),
    ),
    "bad-request": ErrorCode(
        meaning="The head of a request is not HTTP.",
        action="send an HTTP/1.1 request",
        status=HTTPStatus.BAD_REQUEST,
        contains=("field",),
    ),
    "bad-reason": ErrorCode(
        meaning="The reason for a look is repeated, empty, too long or not printable.",
        action="send one reason of 1 to 500 printable characters in UTF-8",
        status=HTTPStatus.BAD_REQUEST,
        contains=("field",),
    ),
    "bad-text": ErrorCode(
        meaning="A text has a NUL or half of a surrogate pair.",
        action="remove the character",
        contains=("field",),
    ),
    "behind": ErrorCode(
        meaning="The read models did not reach `min_sequence` within five seconds.",
        action="send the request again",
        status=HTTPStatus.GATEWAY_TIMEOUT,
        contains=("field", "Retry-After"),
        retry_after=1,
    ),
    "cross-site": ErrorCode(
        meaning="The page of another site sent the request.",
        action="use the gateway's own page, or a proxy that passes on Host as it is",
        status=HTTPStatus.FORBIDDEN,
        contains=("field",),
    ),
    "digest-differs": ErrorCode(
        meaning="Uploaded bytes have another digest than the request announced.",
        action="send the bytes again, or announce their SHA-256",
        contains=("field",),
    ),
    "duplicate-key": ErrorCode(
        meaning="A key is repeated within a JSON object.",
        action="send it once",
        contains=("field",),
    ),
    "invalid-credentials": ErrorCode(
        meaning="The key or token of a request is unknown, wrong, expired or revoked.",
        action="sign in with another one",
        status=HTTPStatus.UNAUTHORIZED,
        contains=("field",),
    ),
    "keys-not-configured": ErrorCode(
        meaning="A request has a key, or is about keys, and the service asks nobody for one.",
        action="leave the key out, or have the operator set `TURNLOG_ROOT_KEY`",
        status=HTTPStatus.BAD_REQUEST,
        contains=("field",),
    ),
    "not-permitted": ErrorCode(
        meaning="The sender has no role with the [permission](permissions.md) for a request.",
        action="sign in with a role that `fix` names",
        status=HTTPStatus.FORBIDDEN,
        contains=("field",),
    ),
    "reason-missing": ErrorCode(
        meaning="A look that is recorded needs a reason here, and the request gives none.",
        action="say why, in the header `Turnlog-Reason` or with `--reason`",
        status=HTTPStatus.BAD_REQUEST,
        contains=("field",),
    ),
    "not-signed-in": ErrorCode(
        meaning="A request does not say who sends it, and the service answers nobody unknown.",
        action="send a key as `Authorization: Bearer`",
        status=HTTPStatus.UNAUTHORIZED,
        contains=("field",),
    ),
    "future-cursor": ErrorCode(
        meaning="A cursor is beyond the end of the stream.",
        action="use a cursor from this stream, or none to start at the beginning",
        contains=("field",),
    ),
    "given-twice": ErrorCode(
        meaning="A value is given under two of its names.",
        action="leave out one of the two",
        contains=("field",),
    ),
    "invalid": ErrorCode(
        meaning="A field, parameter or option is unknown, missing, or has an impossible value.",
        action="change the field that is named",
        exit_code=ExitCode.USAGE,
        contains=("field", "faults"),
    ),
    "key-reused": ErrorCode(
        meaning="The same `Idempotency-Key` was used before with another request.",
        action="use a new key for a new request",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "offset-differs": ErrorCode(
        meaning="An upload goes on at another byte than the gateway has of it.",
        action="send the bytes from the number on that it names, or all of them without an offset",
        status=HTTPStatus.CONFLICT,
        retry="no",
        contains=("field",),
    ),
    "media-type-differs": ErrorCode(
        meaning="The bytes of an upload are of another type than the request says.",
        action="send the type that they are, or `application/octet-stream`",
        contains=("field",),
    ),
    "method-not-allowed": ErrorCode(
        meaning="The route has no such method.",
        action="see /openapi.json for the routes",
        status=HTTPStatus.METHOD_NOT_ALLOWED,
    ),
    "missing-value": ErrorCode(
        meaning="An attribute or input that the blueprint requires is missing.",
        action="add it",
        contains=("field",),
    ),
    "not-acceptable": ErrorCode(
        meaning="The route has none of the media types that the request accepts.",
        action="accept one that the route has",
        status=HTTPStatus.NOT_ACCEPTABLE,
        contains=("field",),
    ),
    "not-there-yet": ErrorCode(
        meaning="A sequence or position is beyond the end of the session or the log.",
        action="send a sequence that exists",
        exit_code=ExitCode.NOT_FOUND,
        retry="later",
        contains=("field",),
    ),
    "refused": ErrorCode(
        meaning="HTTP itself refused the request, with the status of the answer.",
        action="see /openapi.json for the routes",
        status=HTTPStatus.BAD_REQUEST,
    ),
    "too-deep": ErrorCode(
        meaning="JSON is nested deeper than 64 levels.",
        action="send it as text",
        contains=("field",),
    ),
    "too-large": ErrorCode(
        meaning="A body, a text or a value has more bytes than are taken.",
        action="send less",
        status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        contains=("field",),
    ),
    "too-many-filters": ErrorCode(
        meaning="A list is filtered by too many attributes.",
        action="filter by fewer",
        contains=("field",),
    ),
    "too-many-groups": ErrorCode(
        meaning="The growth of context has too many groups.",
        action="narrow the time, or group by less",
        contains=("field",),
    ),
    "too-many-uses": ErrorCode(
        meaning="A source reached more sessions that are related to others than a list follows.",
        action="ask for one session, or for a narrower source",
        contains=("field",),
    ),
    "too-many-values": ErrorCode(
        meaning="A body has too many values.",
        action="send it in several requests",
        contains=("field",),
    ),
    "too-slow": ErrorCode(
        meaning="The head or the body of the request was not sent within ten seconds.",
        action="send it in one go",
        status=HTTPStatus.REQUEST_TIMEOUT,
        retry="later",
        contains=("field",),
    ),
    "unknown-host": ErrorCode(
        meaning="The request is addressed to a host that the gateway does not have.",
        action="use localhost, or name the host in TURNLOG_HOSTS",
        status=HTTPStatus.MISDIRECTED_REQUEST,
        contains=("field",),
    ),
    "unknown-kind": ErrorCode(
        meaning="The blueprint has no call of this name.",
        action="name a call of the blueprint",
        exit_code=ExitCode.USAGE,
        contains=("field",),
    ),
    "unknown-route": ErrorCode(
        meaning="There is no such route.",
        action="see /openapi.json for the routes",
        status=HTTPStatus.NOT_FOUND,
    ),
    "unknown-type": ErrorCode(
        meaning="There is no event type of this name.",
        action="name event types as in `turnlog tail --help`",
        exit_code=ExitCode.USAGE,
        contains=("field",),
    ),
    "unknown-value": ErrorCode(
        meaning="The blueprint has no attribute or input of this name.",
        action="leave it out, or write the name that `fix` gives",
        contains=("field",),
    ),
    "unsafe-input": ErrorCode(
        meaning="What was submitted has something that a rule of `input_safety` does not accept.",
        action="send it without",
        contains=("field",),
    ),
    "unsupported-encoding": ErrorCode(
        meaning="The body is compressed.",
        action="send it as it is",
        status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        contains=("field",),
    ),
    "unsupported-media": ErrorCode(
        meaning="The body is of a type that the route does not take; most take JSON.",
        action="send `Content-Type: application/json`, or a type that `fix` names",
        status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        contains=("field",),
    ),
    "value-not-allowed": ErrorCode(
        meaning="An attribute or input has a value outside of its list, range or pattern.",
        action="send a value that the blueprint allows",
        contains=("field",),
    ),
    "wrong-type": ErrorCode(
        meaning="An attribute or input is not of the type that the blueprint declares.",
        action="send a value of the declared type",
        contains=("field",),
    ),
    "user-not-trusted": ErrorCode(
        meaning="A field of a request names its user, where only a trusted proxy may.",
        action="leave the field out",
        status=HTTPStatus.BAD_REQUEST,
        contains=("field",),
    ),
}
