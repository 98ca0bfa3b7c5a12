"""Which parameters a call may set.

An allow-list: litellm takes addresses, keys, headers and callbacks by the same door as the
temperature, so anything not named here is refused rather than passed on.
"""

from __future__ import annotations

from collections.abc import Mapping

from turnlog.services.worker.model.failures import ModelFailure

ALLOWED = frozenset(
    {
        "frequency_penalty",
        "max_completion_tokens",
        "max_tokens",
        "parallel_tool_calls",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "seed",
        "stop",
        "temperature",
        "tool_choice",
        "top_p",
    }
)


def checked(parameters: Mapping[str, object]) -> Mapping[str, object]:
    """The same parameters; fails with `bad_request` when one is not allowed."""
    unknown = sorted(parameters.keys() - ALLOWED)
    if unknown:
        raise ModelFailure("bad_request", f"parameters not allowed: {', '.join(unknown)}")
    return parameters
