"""Read a streamed answer chunk by chunk, and decide whether its end is an answer.

A chunk is an object of litellm, loosely typed and different for each provider, or a JSON object of
OpenAI's protocol as its server sent it. This module alone reads them and returns plain values. What
litellm makes up itself (a finish reason, usage that it counted) is ignored. A stream that stops is
not a finished answer: without a known finish reason, or without any content, it is a failure,
however cleanly the connection closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from json.encoder import encode_basestring
from types import MappingProxyType
from typing import Final, cast

from turnlog.events.model.attempt_figures import SafetyRating
from turnlog.events.model.turn_events import FILTER_REASONS, FinishReason
from turnlog.events.storable_text import replace_unstorable
from turnlog.services.worker.model.model_types import (
    FinishedAnswer,
    ModelFailure,
    ModelToolCall,
    ModelUsage,
)

MAX_ANSWER_BYTES: Final = 900_000
"""Maximum size of an answer with its tool calls, as JSON: an event must hold it."""

MAX_RESPONSE_ID: Final = 256
"""Maximum characters of a provider's id of an answer; a longer one is not recorded."""

_MAX_COUNT: Final = 10**12
"""Maximum of a count or an index that is believed: what is stored must fit into a database."""


class ChunkReader:
    """What has been read of one answer so far."""

    def __init__(self) -> None:
        self.spoken = False
        """Some text has come."""
        self.received_id: str | None = None
        """The id that litellm got from the client below it; the chunks it adds have none."""
        self._model = ""
        self._bytes = 0
        self._calls: list[ModelToolCall] = []
        self._open: dict[int, int] = {}
        """Where in `_calls` the parts of an index go."""

    @property
    def model(self) -> str | None:
        """The model that answers, as the latest chunk that says so names it."""
        return self._model or None

    @property
    def tool_calls(self) -> tuple[ModelToolCall, ...]:
        return tuple(self._calls)

    def read_chunk(self, chunk: object) -> tuple[str, bool]:
        """Return the text of a chunk, and whether the chunk holds anything from the model."""
        self._model = _read_answering_model(chunk) or self._model
        if self.received_id is None:
            received = _read_text(_get_hidden_parameters(chunk).get("received_model_id"))
            self.received_id = received or None
        delta = _get_delta(chunk)
        text = self._count_bytes(_read_text(_get_attribute(delta, "content")))
        parts = _read_sequence(_get_attribute(delta, "tool_calls"))
        for part in parts:
            self._join_tool_call(part)
        self.spoken = self.spoken or bool(text)
        return text, bool(text or parts or _has_reasoning(delta))

    def _count_bytes(self, text: str) -> str:
        self._bytes += len(encode_basestring(text).encode())
        if self._bytes > MAX_ANSWER_BYTES:
            raise ModelFailure("too_long", f"it is more than {MAX_ANSWER_BYTES} bytes")
        return text

    def _join_tool_call(self, part: object) -> None:
        """Begin a call at a part with a new id; append any other part to the call of its index."""
        function, call_id = _get_attribute(part, "function"), _read_text(_get_attribute(part, "id"))
        name, arguments = (
            _read_text(_get_attribute(function, "name")),
            _read_text(_get_attribute(function, "arguments")),
        )
        self._count_bytes(name + arguments)
        index = _read_number(_get_attribute(part, "index"))
        place = self._open.get(index)
        if place is None or (call_id and call_id != self._calls[place].id):
            self._open[index] = len(self._calls)
            self._calls.append(ModelToolCall(call_id, name, arguments))
        else:
            begun = self._calls[place]
            self._calls[place] = replace(begun, arguments=begun.arguments + arguments)


def read_reported_usage(chunks: Iterable[object]) -> ModelUsage | None:
    """Return the provider's own count from raw chunks; None if there is none, or only zeros."""
    counts = [count for chunk in chunks if (count := _get_attribute(chunk, "usage")) is not None]
    # Some providers report input first and output last, some repeat both: the maximum is the total.
    sent = max(
        (_read_number(_get_attribute(count, "prompt_tokens")) for count in counts), default=0
    )
    received = max(
        (_read_number(_get_attribute(count, "completion_tokens")) for count in counts), default=0
    )
    if not sent and not received:
        return None
    return ModelUsage(
        sent,
        received,
        cached_input_tokens=_read_usage_detail(counts, "prompt_tokens_details", "cached_tokens"),
        reasoning_tokens=_read_usage_detail(
            counts, "completion_tokens_details", "reasoning_tokens"
        ),
    )


def _read_usage_detail(counts: Sequence[object], group: str, name: str) -> int:
    return max(
        (_read_number(_get_attribute(_get_attribute(count, group), name)) for count in counts),
        default=0,
    )


def _read_answering_model(chunk: object) -> str:
    """Return the provider's name for the model, or the requested name."""
    served = _get_hidden_parameters(chunk).get("provider_response_model")
    return _read_text(served) or _read_text(_get_attribute(chunk, "model"))


def _get_hidden_parameters(chunk: object) -> Mapping[str, object]:
    hidden = _get_attribute(chunk, "hidden_params")
    return cast("Mapping[str, object]", hidden) if isinstance(hidden, dict) else {}


def _get_delta(chunk: object) -> object:
    choices = _read_sequence(_get_attribute(chunk, "choices"))
    return _get_attribute(choices[0], "delta") if choices else None


def _has_reasoning(delta: object) -> bool:
    return bool(_get_attribute(delta, "reasoning_content") or _get_attribute(delta, "reasoning"))


def _get_attribute(value: object, name: str) -> object:
    if isinstance(value, dict):
        return cast("Mapping[str, object]", value).get(name)
    return getattr(value, name, None)


def _read_text(value: object) -> str:
    return replace_unstorable(value) if isinstance(value, str) else ""


def _read_number(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value <= _MAX_COUNT else 0


def _read_sequence(value: object) -> Sequence[object]:
    return cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()


_NAMES_BY_REASON: Mapping[FinishReason, tuple[str, ...]] = MappingProxyType(
    {
        "stop": ("stop", "end_turn", "stop_sequence", "complete", "eos", "eos_token"),
        "length": ("length", "max_tokens", "model_length", "compaction"),
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
    }
)

_REASON_BY_NAME: Mapping[str, FinishReason] = MappingProxyType(
    {name: reason for reason, names in _NAMES_BY_REASON.items() for name in names}
)


def map_finish_reason(reason: str) -> FinishReason | None:
    """Return our finish reason for a provider's; None if the answer cannot count as whole.

    Only reasons that end an answer on purpose are known. Others, such as `abort` or
    `network_error`, mean that the answer is not whole.
    """
    return _REASON_BY_NAME.get(reason.lower())


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
    `ratings`. An answer that a filter stopped
    before its first word is an end as well, and the finish reason says which filter.
    """
    reason = None if reason_name is None else map_finish_reason(reason_name)
    silent = not reading.spoken and not reading.tool_calls
    if silent and (reason_name is None or (usage is None and reason not in FILTER_REASONS)):
        raise ModelFailure("empty", "it ended with nothing said")
    if reason is None:
        raise ModelFailure("incomplete", f"it ended with {_describe_reason(reason_name)}")
    return FinishedAnswer(
        # Some providers report `stop` for an answer that requests tools.
        finish_reason="tool_calls" if reason == "stop" and reading.tool_calls else reason,
        tool_calls=reading.tool_calls,
        usage=usage,
        model=reading.model or requested_model,
        response_id=_check_response_id(response_id),
        ratings=ratings if reason in FILTER_REASONS else (),
    )


def _check_response_id(response_id: str | None) -> str | None:
    """Return the id as an event can hold it, or None if there is none or it is too long."""
    if not response_id or len(response_id) > MAX_RESPONSE_ID:
        return None
    return replace_unstorable(response_id)


def _describe_reason(reason_name: str | None) -> str:
    return "no finish reason" if reason_name is None else f"the finish reason {reason_name[:64]!r}"
