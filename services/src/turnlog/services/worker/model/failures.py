"""Requests to a model, the answers that stream back, and failures, as plain values.

The worker, its tests and other implementations share them without litellm. A failure has a code,
the same for all providers, and a detail that is safe to store: a provider's message is never copied
into it, since messages repeat keys and prompts.
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
without text. `content_filtered` is a refusal before the answer began; an answer that a filter
stopped is a `FinishedAnswer` with that reason. `too_long` is an answer that no event could hold.
`model_off` is a service that was started without a model.
"""

RETRYABLE_CODES: frozenset[FailureCode] = frozenset(
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
"""Codes for which the same request may succeed later. A call that used up its whole time is not
among them: the next one would take as long.
"""


class ModelFailure(TurnlogError):
    """A failed attempt; `retry_after` is the provider's requested delay in seconds, if any."""

    def __init__(
        self, code: FailureCode, detail: str = "", *, retry_after: float | None = None
    ) -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code: FailureCode = code
        self.detail = detail
        self.retry_after = retry_after

    @property
    def retryable(self) -> bool:
        return self.code in RETRYABLE_CODES
