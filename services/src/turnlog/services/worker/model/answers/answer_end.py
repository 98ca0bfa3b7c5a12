"""Decide whether the end of a stream is an answer, and say why the model stopped.

A stream that stops is not a finished answer: without a finish reason, or with one that means a
fault, it is a failure, however cleanly the connection closed. A reason that nobody has heard of
does not spoil a whole answer: it is recorded as it was sent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from turnlog.events.model.attempt_figures import SafetyRating
from turnlog.events.model.turn_events import FILTER_REASONS, FinishReason
from turnlog.events.storable_text import replace_unstorable
from turnlog.services.worker.model.answers.chunk_fields import read_finish_reason
from turnlog.services.worker.model.answers.chunk_reader import ChunkReader
from turnlog.services.worker.model.model_types import (
    FinishedAnswer,
    ModelFailure,
    ModelUsage,
)

MAX_RESPONSE_ID: Final = 256
"""Maximum characters of a provider's id of an answer; a longer one is not recorded."""

_REASON_FORM: Final = re.compile(r"(?=.{1,64}$)[A-Za-z]+(?:[ _-][A-Za-z]+){0,7}")
"""The form of a finish reason that is recorded."""

_NAMES_BY_REASON: Mapping[FinishReason, tuple[str, ...]] = MappingProxyType(
    {
        "stop": ("stop", "end_turn", "stop_sequence", "complete", "eos", "eos_token"),
        "length": (
            "length",
            "max_tokens",
            "max_output_tokens",
            "model_length",
            "model_context_window_exceeded",
            "compaction",
        ),
        "tool_calls": ("tool_calls", "tool_use", "function_call"),
        "content_filter": (
            "content_filter",
            "content_filtered",
            "refusal",
            "sensitive",
            "error_toxic",
            "guardrail_intervened",
            "blocklist",
            "prohibited_content",
            "spii",
            "language",
            "other",
        ),
        "safety": ("safety", "image_safety"),
        "recitation": ("recitation", "image_recitation"),
        "other": ("finish_reason_unspecified", "unknown", "unspecified"),
    }
)

_REASON_BY_NAME: Mapping[str, FinishReason] = MappingProxyType(
    {name: reason for reason, names in _NAMES_BY_REASON.items() for name in names}
)


_FAULTS: Final = frozenset(
    {
        "abort",
        "aborted",
        "cancelled",
        "canceled",
        "error",
        "failed",
        "malformed_function_call",
        "network_error",
        "timeout",
        "too_many_tool_calls",
        "unexpected_tool_call",
    }
)
"""Finish reasons of a stream that broke: what came before is no whole answer."""


def map_finish_reason(reason: str) -> FinishReason | None:
    """Return our finish reason for a provider's, `other` for an unknown one; None for a fault."""
    name = reason.lower()
    return None if name in _FAULTS else _REASON_BY_NAME.get(name, "other")


def build_finished(
    reading: ChunkReader,
    *,
    reason_name: str | None,
    usage: ModelUsage | None,
    requested_model: str,
    response_id: str | None = None,
    ratings: tuple[SafetyRating, ...] = (),
) -> FinishedAnswer:
    """Return the end of an answer, or fail with `empty` or `incomplete`.

    `reason_name` is the finish reason in the provider's words. Only an answer that a filter cut has
    `ratings`. An answer that a filter stopped before its first word is an end as well, and the
    finish reason says which filter. Of any other answer of nothing with a finish reason, the policy
    `empty_reply` decides, whether the provider reports usage or not.
    """
    reason_name = read_finish_reason(reason_name)
    reason = None if reason_name is None else map_finish_reason(reason_name)
    if reading.is_silent and reason_name is None:
        raise ModelFailure("empty", "it ended with nothing said")
    if reason_name is None or reason is None:
        raise ModelFailure("incomplete", f"it ended with {_describe_reason(reason_name)}")
    tool_calls = reading.tool_calls
    return FinishedAnswer(
        finish_reason=_find_true_reason(
            reason, calls=bool(tool_calls), refused=reading.has_refused
        ),
        finish_sent=_quote_reason(reason_name) if reason == "other" else None,
        tool_calls=tool_calls,
        usage=usage,
        model=reading.model or requested_model,
        response_id=_check_response_id(response_id),
        ratings=ratings if reason in FILTER_REASONS else (),
    )


def _find_true_reason(reason: FinishReason, *, calls: bool, refused: bool) -> FinishReason:
    """Return the reason as the answer shows it: some providers say `stop` whatever it holds."""
    if reason not in {"stop", "other"}:
        return reason
    if refused:
        return "content_filter"
    return "tool_calls" if calls else reason


def _check_response_id(response_id: str | None) -> str | None:
    """Return the id as an event can hold it, or None if there is none or it is too long."""
    if not response_id or len(response_id) > MAX_RESPONSE_ID:
        return None
    return replace_unstorable(response_id)


def _describe_reason(reason_name: str | None) -> str:
    return (
        "no finish reason"
        if reason_name is None
        else f"the finish reason {_quote_reason(reason_name)!r}"
    )


def _quote_reason(reason_name: str) -> str:
    """Return a reason as it was sent, if it is a word: a key or a text of the prompt is none."""
    return reason_name if _REASON_FORM.fullmatch(reason_name) else "(no word)"
