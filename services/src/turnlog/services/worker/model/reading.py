"""Read a streamed answer chunk by chunk, and decide whether its end is an answer.

litellm's chunks are loosely typed and differ between providers. This module alone reads them and
returns plain values. What litellm makes up itself (a finish reason, usage that it counted) is
ignored. A stream that stops is not a finished answer: without a known finish reason, or without any
content, it is a failure, however cleanly the connection closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from json.encoder import encode_basestring
from typing import Final, cast

from turnlog.projections.blueprint.storable import replace_unstorable
from turnlog.services.worker.model.exchange import ModelToolCall, ModelUsage
from turnlog.services.worker.model.failures import ModelFailure

MAX_ANSWER_BYTES: Final = 900_000
"""Maximum size of an answer with its tool calls, as JSON: an event must hold it."""


class ChunkReader:
    """What has been read of one answer so far."""

    def __init__(self) -> None:
        self.spoken = False
        """Some text has come."""
        self._latest: object = None
        self._bytes = 0
        self._calls: list[ModelToolCall] = []
        self._open: dict[int, int] = {}
        """Where in `_calls` the parts of an index go."""

    @property
    def model(self) -> str | None:
        """The model that answers, as every chunk names it."""
        return _read_answering_model(self._latest) or None

    @property
    def response_id(self) -> str | None:
        return _read_text(_get_attribute(self._latest, "id")) or None

    @property
    def tool_calls(self) -> tuple[ModelToolCall, ...]:
        return tuple(self._calls)

    def read_chunk(self, chunk: object) -> tuple[str, bool]:
        """Return the text of a chunk, and whether the chunk holds anything from the model."""
        self._latest = chunk
        delta = _get_delta(chunk)
        text = self._count_bytes(_read_text(_get_attribute(delta, "content")))
        parts = _read_sequence(_get_attribute(delta, "tool_calls"))
        for part in parts:
            self._join_tool_call(part)
        self.spoken = self.spoken or bool(text)
        return text, bool(text or parts or _get_attribute(delta, "reasoning_content"))

    def _count_bytes(self, said: str) -> str:
        self._bytes += len(encode_basestring(said).encode())
        if self._bytes > MAX_ANSWER_BYTES:
            raise ModelFailure("too_long", f"it is more than {MAX_ANSWER_BYTES} bytes")
        return said

    def _join_tool_call(self, part: object) -> None:
        """Begin a call at a part with a new id; append any other part to the call of its index."""
        function, call_id = _get_attribute(part, "function"), _read_text(_get_attribute(part, "id"))
        name, arguments = _read_text(_get_attribute(function, "name")), _read_text(_get_attribute(function, "arguments"))
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
    sent = max((_read_number(_get_attribute(count, "prompt_tokens")) for count in counts), default=0)
    received = max((_read_number(_get_attribute(count, "completion_tokens")) for count in counts), default=0)
    if not sent and not received:
        return None
    return ModelUsage(
        sent,
        received,
        cached_input_tokens=_read_usage_detail(counts, "prompt_tokens_details", "cached_tokens"),
        reasoning_tokens=_read_usage_detail(counts, "completion_tokens_details", "reasoning_tokens"),
    )


def _read_usage_detail(counts: Sequence[object], group: str, name: str) -> int:
    return max((_read_number(_get_attribute(_get_attribute(count, group), name)) for count in counts), default=0)


def _read_answering_model(chunk: object) -> str:
    """Return the provider's name for the model, or the requested name."""
    hidden = _get_attribute(chunk, "hidden_params")
    if isinstance(hidden, dict):
        served = cast("Mapping[str, object]", hidden).get("provider_response_model")
        return _read_text(served) or _read_text(_get_attribute(chunk, "model"))
    return _read_text(_get_attribute(chunk, "model"))


def _get_delta(chunk: object) -> object:
    choices = _read_sequence(_get_attribute(chunk, "choices"))
    return _get_attribute(choices[0], "delta") if choices else None


def _get_attribute(value: object, name: str) -> object:
    return getattr(value, name, None)


def _read_text(value: object) -> str:
    return replace_unstorable(value) if isinstance(value, str) else ""


def _read_number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _read_sequence(value: object) -> Sequence[object]:
    return cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
