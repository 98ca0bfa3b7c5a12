"""Map what a provider refuses, and what litellm or aiohttp raises, to a `ModelFailure`.

litellm wraps errors: the caller sees status 500 for a refused connection as well as for a missing
key. This module therefore walks the chain of causes, and the innermost facts decide: the HTTP
status of the provider, or the error of the transport. It reads only statuses, headers and short
codes, and of a prompt that is too long how long it is and may be. It drops messages, since they
repeat prompts and keys.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import cast

import aiohttp
import httpx

from turnlog.projections.blueprint.bounded_json import InvalidJson, parse_json
from turnlog.services.worker.model.context_overflows import OVERFLOW_WORDS, read_overflow
from turnlog.services.worker.model.model_types import FailureCode, ModelFailure

_CODE_BY_STATUS: Mapping[int, FailureCode] = {
    401: "unauthorised",
    402: "out_of_credit",
    403: "unauthorised",
    404: "unknown_model",
    408: "server_error",
    409: "server_error",
    429: "rate_limited",
}

_CODE_BY_CLASS: Mapping[str, FailureCode] = {
    "AuthenticationError": "unauthorised",
    "ContextWindowExceededError": "context_overflow",
    "ContentPolicyViolationError": "content_filtered",
    "UnsupportedParamsError": "bad_request",
}
"""Exception classes of litellm that are more specific than the status."""

_CODE_BY_ERROR_CODE: Mapping[str, FailureCode] = {
    "content_filter": "content_filtered",
    "content_policy_violation": "content_filtered",
    "context_length_exceeded": "context_overflow",
    "exceed_context_size_error": "context_overflow",
    "model_not_found": "unknown_model",
    "model_not_exist": "unknown_model",
    "invalid_model": "unknown_model",
    "invalid_api_key": "unauthorised",
    "invalid_authentication_error": "unauthorised",
    "authentication_error": "unauthorised",
    "permission_error": "unauthorised",
    "insufficient_quota": "out_of_credit",
    "exceeded_current_quota_error": "out_of_credit",
    "insufficient_balance": "out_of_credit",
    "insufficient_credits": "out_of_credit",
    "insufficient_funds": "out_of_credit",
    "billing_hard_limit_reached": "out_of_credit",
    "billing_not_active": "out_of_credit",
}
"""Error codes that say more than the status: 429 is both a rate limit and a spent credit."""

_CREDIT_WORDS = re.compile(
    r"credit balance is too low|insufficient (?:balance|credits?|funds)|out of credits",
    re.IGNORECASE,
)
"""What providers say when nothing is left to pay with, where they send no code for it. Gemini says
"exceeded your current quota" of a limit a minute, so that is none of them.
"""

_KEY_WORDS = re.compile(
    r"api[ _]key (?:is )?(?:not valid|invalid)|invalid api[ _]key", re.IGNORECASE
)
"""What Gemini and others say of a key with status 400."""

_RESPONSE_FORMAT_WORDS = re.compile(
    r"response_?(?:format|schema|json_?schema)|output_(?:format|config)|json_schema"
    r"|text\.format|response.?mime",
    re.IGNORECASE,
)
"""What providers and litellm call the schema of an answer in their messages."""

_MAX_ERROR_BYTES = 65_536
"""Maximum bytes of an error body in which a code is searched."""

_ERROR_CODE_FORM = re.compile(r"[a-z]+(?:_[a-z]+)*")
"""The form of an error code, which neither a key nor a sentence has."""


def map_error(error: BaseException, *, accepted: bool, now: float) -> ModelFailure:
    """Return the failure that an exception is mapped to.

    `accepted` is true once the provider has begun to answer; `now` is Unix time.
    """
    links = tuple(_iterate_causes(error))
    for link in links:
        if isinstance(link, ModelFailure):
            return link
    response = next((e.response for e in links if isinstance(e, httpx.HTTPStatusError)), None)
    if response is not None:
        return map_refusal(
            _read_http_refusal(response),
            now,
            class_code=_find_class_code(links),
            library_words=str(links[0]),
            address=_find_address(links),
        )
    code = (
        _find_class_code(links)
        or _find_transport_code(links)
        or _find_fallback_code(links, accepted=accepted)
    )
    words = str(links[0])[:_MAX_ERROR_BYTES]
    if code == "bad_request" and _RESPONSE_FORMAT_WORDS.search(words):
        code = "response_format_refused"
    return ModelFailure(
        code,
        type(links[-1]).__name__,
        address=_find_address(links),
        overflow=read_overflow(words) if code == "context_overflow" else None,
    )


@dataclass(frozen=True, slots=True)
class ProviderRefusal:
    """A response that is no answer."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case, or of any case where the mapping does not care."""
    body: bytes
    """The body as far as it was read."""


def map_refusal(
    refusal: ProviderRefusal,
    now: float,
    *,
    class_code: FailureCode | None = None,
    library_words: str = "",
    address: str = "",
) -> ModelFailure:
    """Return the failure that a refusal is mapped to.

    `class_code` is what litellm's class for it says, and `library_words` litellm's message, which
    is searched and never stored. `now` is Unix time.
    """
    status, body = refusal.status, refusal.body[:_MAX_ERROR_BYTES]
    error_code = _parse_error_code(body)
    words = f"{body.decode(errors='replace')} {library_words[:_MAX_ERROR_BYTES]}"
    default: FailureCode = (
        "server_error" if status >= httpx.codes.INTERNAL_SERVER_ERROR else "bad_request"
    )
    code = class_code or _CODE_BY_ERROR_CODE.get(error_code) or _CODE_BY_STATUS.get(status, default)
    if code in {"bad_request", "rate_limited", "server_error"}:
        code = _find_code_by_words(words, code)
    return ModelFailure(
        code,
        f"HTTP {status} {error_code}".rstrip(),
        retry_after=parse_retry_after(refusal.headers, now),
        address=address,
        overflow=read_overflow(words) if code == "context_overflow" else None,
    )


def _find_address(links: tuple[BaseException, ...]) -> str:
    """Return the host and port of the request that failed, if an error of httpx has it."""
    for link in links:
        if isinstance(link, httpx.RequestError | httpx.HTTPStatusError):
            with suppress(RuntimeError):  # an error may have been raised without its request
                return link.request.url.netloc.rpartition(b"@")[2].decode()
    return ""


_CODE_BY_WORDS: Sequence[tuple[re.Pattern[str], FailureCode]] = (
    (OVERFLOW_WORDS, "context_overflow"),
    (_CREDIT_WORDS, "out_of_credit"),
    (_KEY_WORDS, "unauthorised"),
    (_RESPONSE_FORMAT_WORDS, "response_format_refused"),
)


_WORDS_BEYOND_STATUS: Mapping[str, FailureCode] = {
    "rate_limited": "out_of_credit",
    "server_error": "context_overflow",
}
"""The only thing that a status means beside its own code, where the words say so."""


def _find_code_by_words(words: str, default: FailureCode) -> FailureCode:
    """Return what the words of a refusal mean."""
    for pattern, code in _CODE_BY_WORDS:
        is_possible = default == "bad_request" or _WORDS_BEYOND_STATUS.get(default) == code
        if is_possible and pattern.search(words):
            return code
    return default


def map_error_frame(frame: Mapping[str, object]) -> ModelFailure:
    """Return the failure of an answer whose stream has an error instead of its next piece."""
    error_code = read_error_code(frame)
    code = _CODE_BY_ERROR_CODE.get(error_code, "error_in_stream")
    message = _get_field(_get_field(frame, "error"), "message")
    is_overflow = code == "context_overflow" and isinstance(message, str)
    return ModelFailure(
        code, error_code, overflow=read_overflow(json.dumps(message)) if is_overflow else None
    )


def _read_http_refusal(response: httpx.Response) -> ProviderRefusal:
    try:
        body = response.content
    except httpx.ResponseNotRead:
        body = b""
    return ProviderRefusal(response.status_code, response.headers, body)


def _find_class_code(links: tuple[BaseException, ...]) -> FailureCode | None:
    names = (type(link).__name__ for link in links)
    return next((_CODE_BY_CLASS[name] for name in names if name in _CODE_BY_CLASS), None)


def _find_transport_code(links: tuple[BaseException, ...]) -> FailureCode | None:
    for link in links:
        match link:
            case httpx.ConnectTimeout() | httpx.PoolTimeout() | aiohttp.ConnectionTimeoutError():
                return "timeout_connect"
            case httpx.TimeoutException() | aiohttp.ServerTimeoutError():
                return "timeout_total"
            case httpx.TransportError() | aiohttp.ClientConnectionError():
                return "disconnected"
            case aiohttp.ClientPayloadError():
                return "disconnected"
            case json.JSONDecodeError() | UnicodeDecodeError() | aiohttp.ClientResponseError():
                return "malformed"
            case _:
                continue
    return None


def _find_fallback_code(links: tuple[BaseException, ...], *, accepted: bool) -> FailureCode:
    """Map an error frame, or an error that litellm raised itself."""
    if accepted:
        return "error_in_stream"
    message = str(links[0])
    if "LLM Provider NOT provided" in message:
        return "unknown_model"
    if "Missing credentials" in message:
        return "unauthorised"
    status = getattr(links[0], "status_code", 0)
    return "bad_request" if status == httpx.codes.BAD_REQUEST else "server_error"


def _iterate_causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: object = error
    while isinstance(link, BaseException) and id(link) not in seen:
        seen.add(id(link))
        yield link
        # litellm stores the cause of a broken stream in a field of its own.
        link = getattr(link, "original_exception", None) or link.__cause__ or link.__context__


def _parse_error_code(body: bytes) -> str:
    try:
        return read_error_code(parse_json(body))
    except InvalidJson:
        return ""


def read_error_code(body: object) -> str:
    """Return the provider's error code or type; empty if there is none that is safe to store."""
    error = _get_field(body, "error")
    for value in (_get_field(error, "code"), _get_field(error, "type")):
        if isinstance(value, str) and _ERROR_CODE_FORM.fullmatch(value):
            return value
    return ""


def _get_field(value: object, name: str) -> object:
    return cast("Mapping[str, object]", value).get(name) if isinstance(value, dict) else None


def parse_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the delay in seconds that a provider asks for, or None.

    The header holds seconds or an HTTP date; some providers send milliseconds under another name.
    Header names are in lower case, `now` is Unix time, and the result is never negative.
    """
    milliseconds = _parse_number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    header = headers.get("retry-after", "")
    seconds = _parse_number(header)
    return _compute_seconds_until(header, now) if seconds is None else seconds


def _parse_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return max(value, 0.0) if math.isfinite(value) else None


def _compute_seconds_until(date: str, now: float) -> float | None:
    try:
        return max(parsedate_to_datetime(date).timestamp() - now, 0.0)
    except (ValueError, TypeError, OverflowError):
        return None
