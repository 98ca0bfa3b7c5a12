"""What is published of an error code: its status, its exit code, its meaning, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from http import HTTPStatus
from typing import Final, Literal

RetryAdvice = Literal["yes", "later", "no"]
"""Whether the same request with the same key helps: `yes` after a while, by itself; `later` once
what the request met has changed; `no` as long as the request is the same."""

ErrorField = Literal["field", "faults", "sequence", "quota", "Retry-After"]
"""What an answer with the code contains beside what every answer contains."""

INVALID_VALUE_STATUS: Final = HTTPStatus.UNPROCESSABLE_ENTITY
"""The status of a refusal of a value, and of every refusal that has none of its own."""


class ExitCode(IntEnum):
    """The exit codes of the command line."""

    OK = 0
    ERROR = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    VERIFICATION_FAILED = 5
    UNWITNESSED = 6


_EXIT_BY_STATUS: Final = {
    HTTPStatus.NOT_FOUND: ExitCode.NOT_FOUND,
    HTTPStatus.CONFLICT: ExitCode.CONFLICT,
    HTTPStatus.TOO_MANY_REQUESTS: ExitCode.CONFLICT,
}

_RETRY_BY_STATUS: Final[dict[HTTPStatus | None, RetryAdvice]] = {
    HTTPStatus.CONFLICT: "later",
    HTTPStatus.TOO_MANY_REQUESTS: "yes",
    HTTPStatus.SERVICE_UNAVAILABLE: "yes",
    HTTPStatus.GATEWAY_TIMEOUT: "yes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCode:
    """One code of a refused or failed request."""

    meaning: str
    """When it is given."""
    action: str
    """What its reader does about it."""
    status: HTTPStatus | None = INVALID_VALUE_STATUS
    """The HTTP status of the answer; None where only the command line or a client gives it."""
    exit_code: ExitCode | None = None
    """The exit code at the command line, where it does not follow from the status."""
    retry: RetryAdvice | None = None
    """The advice, where it does not follow from the status."""
    contains: tuple[ErrorField, ...] = ()
    """What an answer contains beside the fields of every answer."""
    retry_after: int | None = None
    """The `Retry-After` header in seconds, where it is always the same."""

    def get_exit_code(self) -> ExitCode:
        """Return the exit code of a command that ends with this code."""
        if self.exit_code is not None:
            return self.exit_code
        return _EXIT_BY_STATUS.get(self.status, ExitCode.ERROR) if self.status else ExitCode.ERROR

    def get_retry_advice(self) -> RetryAdvice:
        """Return whether the same request with the same key helps."""
        return self.retry or _RETRY_BY_STATUS.get(self.status, "no")
