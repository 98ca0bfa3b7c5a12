"""Why a model did not answer, in one vocabulary for all providers.

A failure carries a code, not a sentence to be parsed, and a detail that is safe to store: no
provider's message is ever copied into it, since those repeat keys and prompts.
"""

from __future__ import annotations

from typing import Literal

from turnlog.events.errors import TurnlogError

FailureCode = Literal[
    "rate_limited",
    "server_error",
    "timeout_connect",
    "timeout_first_token",
    "timeout_stalled",
    "timeout_total",
    "disconnected",
    "error_in_stream",
    "incomplete",
    "malformed",
    "empty",
    "content_filtered",
    "context_overflow",
    "too_long",
    "model_off",
    "unauthorised",
    "unknown_model",
    "bad_request",
]
"""`incomplete` is an end without a finish reason, `malformed` an unreadable chunk, `empty` an end
with nothing said. `content_filtered` is a refusal before the answer began; an answer that a filter
ended is a `Finished` with that reason. `too_long` is an answer that no event could hold.
`model_off` is a service that was started without one."""

RETRYABLE: frozenset[FailureCode] = frozenset(
    {
        "rate_limited",
        "server_error",
        "timeout_connect",
        "timeout_first_token",
        "timeout_stalled",
        "disconnected",
        "error_in_stream",
        "incomplete",
        "malformed",
        "empty",
    }
)
"""Those where the same request may fare better. A call that used up its whole time is not among
them: the next try would need as long."""


class ModelFailure(TurnlogError):
    """The attempt failed; `retry_after` is the provider's wish in seconds, where it has one."""

    def __init__(
        self, code: FailureCode, detail: str = "", *, retry_after: float | None = None
    ) -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code: FailureCode = code
        self.detail = detail
        self.retry_after = retry_after

    @property
    def retryable(self) -> bool:
        return self.code in RETRYABLE
