"""Map what litellm raises to a `ModelFailure`.

litellm wraps errors: the caller sees status 500 for a refused connection as well as for a missing
key. This module therefore walks the chain of causes, and the innermost facts decide: the HTTP
status of the provider, or the error of the transport. It reads only statuses, headers and short
codes. It drops messages, since they repeat prompts and keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import cast

import httpx

from turnlog.services.worker.model.failures import FailureCode, ModelFailure
from turnlog.services.worker.model.retry_after import retry_after

_STATUS: Mapping[int, FailureCode] = {
    401: "unauthorised",
    402: "unauthorised",
    403: "unauthorised",
    404: "unknown_model",
    408: "server_error",
    409: "server_error",
    429: "rate_limited",
}
_NAMES: Mapping[str, FailureCode] = {
    "AuthenticationError": "unauthorised",
    "ContextWindowExceededError": "context_overflow",
    "ContentPolicyViolationError": "content_filtered",
    "UnsupportedParamsError": "bad_request",
}
"""Classes of litellm that say more than the status."""
_CODES: Mapping[str, FailureCode] = {
    "content_filter": "content_filtered",
    "content_policy_violation": "content_filtered",
    "context_length_exceeded": "context_overflow",
    "model_not_found": "unknown_model",
}
_SAYABLE = re.compile(r"[a-z]+(?:_[a-z]+)*")
"""The form of an error code, which neither a key nor a sentence has."""


def diagnose(error: BaseException, *, answering: bool, now: float) -> ModelFailure:
    """Return the failure that an exception stands for.

    `accepted` is true once the provider has begun to answer; `now` is Unix time.
    """
    links = tuple(_chain(error))
    for link in links:
        if isinstance(link, ModelFailure):
            return link
    response = next((e.response for e in links if isinstance(e, httpx.HTTPStatusError)), None)
    if response is not None:
        return _answered(links, response, now)
    code = _named(links) or _transport(links) or _unanswered(links, answering=answering)
    return ModelFailure(code, type(links[-1]).__name__)


def _answered(
    links: tuple[BaseException, ...], response: httpx.Response, now: float
) -> ModelFailure:
    """Map an error status of the provider."""
    status, said = response.status_code, _code_in(response)
    default: FailureCode = (
        "server_error" if status >= httpx.codes.INTERNAL_SERVER_ERROR else "bad_request"
    )
    code = _named(links) or _CODES.get(said) or _STATUS.get(status, default)
    detail = f"HTTP {status} {said}".rstrip()
    return ModelFailure(code, detail, retry_after=retry_after(response.headers, now))


def _named(links: tuple[BaseException, ...]) -> FailureCode | None:
    names = (type(link).__name__ for link in links)
    return next((_NAMES[name] for name in names if name in _NAMES), None)


def _transport(links: tuple[BaseException, ...]) -> FailureCode | None:
    for link in links:
        match link:
            case httpx.ConnectTimeout() | httpx.PoolTimeout():
                return "timeout_connect"
            case httpx.TimeoutException():
                return "timeout_total"
            case httpx.TransportError():
                return "disconnected"
            case json.JSONDecodeError() | UnicodeDecodeError():
                return "malformed"
            case _:
                continue
    return None


def _unanswered(links: tuple[BaseException, ...], *, answering: bool) -> FailureCode:
    """Map an error frame, or an error that litellm raised itself."""
    if answering:
        return "error_in_stream"
    said = str(links[0])
    if "LLM Provider NOT provided" in said:
        return "unknown_model"
    if "Missing credentials" in said:
        return "unauthorised"
    status = getattr(links[0], "status_code", 0)
    return "bad_request" if status == httpx.codes.BAD_REQUEST else "server_error"


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: object = error
    while isinstance(link, BaseException) and id(link) not in seen:
        seen.add(id(link))
        yield link
        # litellm stores the cause of a broken stream in a field of its own.
        link = getattr(link, "original_exception", None) or link.__cause__ or link.__context__


def _code_in(response: httpx.Response) -> str:
    """Return the provider's error code or type; empty if there is none that is safe to store."""
    try:
        body: object = json.loads(response.content)
    except (ValueError, httpx.ResponseNotRead):
        return ""
    error = _field(body, "error")
    for said in (_field(error, "code"), _field(error, "type")):
        if isinstance(said, str) and _SAYABLE.fullmatch(said):
            return said
    return ""


def _field(value: object, name: str) -> object:
    return cast("Mapping[str, object]", value).get(name) if isinstance(value, dict) else None
