"""Read a streamed answer chunk by chunk: its text, its tool calls, and what the model reasons.

A chunk is an object of litellm, loosely typed and different for each provider, or a JSON object of
OpenAI's protocol as its server sent it. Where in it text and calls can stand is listed in
`docs/answers.md`. What litellm makes up itself (a finish reason, usage that it counted) is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from json.encoder import encode_basestring
from typing import Final, cast

from pydantic import JsonValue

from turnlog.events.recorded_reasoning import read_reasoning_text
from turnlog.events.storable_text import replace_unstorable
from turnlog.services.worker.model.answers.chunk_fields import (
    encode_unread,
    get_choice,
    get_field,
    read_sequence,
    read_text,
)
from turnlog.services.worker.model.answers.reasoning_joiner import (
    MAX_RECORD_BYTES,
    is_reasoning_part,
    read_reasoning,
)
from turnlog.services.worker.model.answers.tool_call_joiner import ToolCallJoiner
from turnlog.services.worker.model.model_types import ModelFailure, ModelToolCall, ReasoningDelta

MAX_ANSWER_BYTES: Final = MAX_RECORD_BYTES
"""Maximum size of an answer with its tool calls, as JSON: an event must hold it."""

_TEXTLESS_PARTS: Final = frozenset({"reference"})
"""Types of parts that add no text: Mistral's marks of what the text before is from."""

_UNREAD_FIELDS: Final = ("audio", "images")
"""Answers of other kinds, which are failures: nothing that a model said is left out in silence."""


class ChunkReader:
    """What has been read of one answer so far."""

    def __init__(self) -> None:
        self.spoken = False
        """Some text has come."""
        self.has_refused = False
        """Some of the text is the model's refusal, by its own account."""
        self.received_id: str | None = None
        """The id that litellm got from the client below it; the chunks it adds have none."""
        self._model = ""
        self._bytes = 0
        self._half = ""
        """The first half of a surrogate pair, whose second half may come with the next chunk."""
        self._calls = ToolCallJoiner()
        self._reasoning: dict[str, JsonValue] = {}

    @property
    def model(self) -> str | None:
        """The model that answers, as the latest chunk that says so names it."""
        return self._model or None

    @property
    def tool_calls(self) -> tuple[ModelToolCall, ...]:
        return self._calls.tool_calls

    @property
    def is_silent(self) -> bool:
        """Whether neither text nor a tool call has come."""
        return not self.spoken and not self._calls

    def read_chunk(self, chunk: object) -> tuple[str, bool]:
        """Return the text of a chunk, and whether the chunk holds anything from the model.

        Raises `ModelFailure` for an answer that is too long, or of a kind that is not read.
        """
        self._model = _read_answering_model(chunk) or self._model
        if self.received_id is None:
            received = read_text(_get_hidden_parameters(chunk).get("received_model_id"))
            self.received_id = replace_unstorable(received) or None
        delta = self._find_delta(get_choice(chunk))
        self._reasoning = read_reasoning(delta)
        text = self._read_content(delta)
        pieces = [*read_sequence(get_field(delta, "tool_calls"))]
        # The protocol's word before there were several calls.
        if function := get_field(delta, "function_call"):
            pieces.append({"function": function})
        for said in self._calls.add_pieces(pieces):
            self._count_bytes(said)
        return self._join_halves(text), bool(text or pieces or self._reasoning)

    def pop_reasoning(self) -> ReasoningDelta | None:
        """Return what the latest chunk had of the model's reasoning, once."""
        fields, self._reasoning = self._reasoning, {}
        return build_reasoning_delta(fields) if fields else None

    def read_rest(self) -> str:
        """Return the text that waited for the second half of a surrogate pair."""
        half, self._half = self._half, ""
        return replace_unstorable(half)

    def _find_delta(self, choice: object) -> object:
        """Return what a choice adds: a whole message or a text where a server does not stream."""
        delta = get_field(choice, "delta")
        if delta:
            return delta
        message = get_field(choice, "message") if self.is_silent else None
        return message or {"content": get_field(choice, "text")}

    def _read_content(self, delta: object) -> str:
        for name in _UNREAD_FIELDS:
            if found := get_field(delta, name):
                detail = f"the answer has `{name}`, which is not read"
                raise ModelFailure("malformed", detail, unread=encode_unread(found))
        content = get_field(delta, "content")
        texts = [content] if isinstance(content, str) else []
        for part in read_sequence(content):
            kind = get_field(part, "type")
            if is_reasoning_part(part):
                continue
            if kind == "refusal":
                texts.append(self._read_refusal(part))
            elif kind not in _TEXTLESS_PARTS:
                texts.append(_read_text_part(part))
        texts.append(self._read_refusal(delta))
        return "".join(texts)

    def _read_refusal(self, holder: object) -> str:
        refusal = read_text(get_field(holder, "refusal"))
        self.has_refused = self.has_refused or bool(refusal)
        return refusal

    def _join_halves(self, text: str) -> str:
        """Return a text as an event can hold it, but for a half at its end, which waits."""
        self.spoken = self.spoken or bool(text)
        whole = self._half + text
        self._half = whole[-1:] if "\ud800" <= whole[-1:] <= "\udbff" else ""
        return self._count_bytes(replace_unstorable(whole[: len(whole) - len(self._half)]))

    def _count_bytes(self, text: str) -> str:
        self._bytes += len(encode_basestring(text).encode(errors="replace"))
        if self._bytes > MAX_ANSWER_BYTES:
            raise ModelFailure("too_long", f"it is more than {MAX_ANSWER_BYTES} bytes")
        return text


def build_reasoning_delta(fields: Mapping[str, JsonValue]) -> ReasoningDelta:
    """Return a piece of reasoning with the part of it that can be read."""
    return ReasoningDelta(fields, replace_unstorable(read_reasoning_text(fields)))


def _read_text_part(part: object) -> str:
    text = part if isinstance(part, str) else get_field(part, "text")
    if not isinstance(text, str):
        kind = read_text(get_field(part, "type"))[:64]
        detail = f"the answer has a part of type {kind!r}, which is not read"
        raise ModelFailure("malformed", detail, unread=encode_unread(part))
    return text


def _read_answering_model(chunk: object) -> str:
    """Return the provider's name for the model, or the requested name."""
    served = _get_hidden_parameters(chunk).get("provider_response_model")
    return replace_unstorable(read_text(served) or read_text(get_field(chunk, "model")))


def _get_hidden_parameters(chunk: object) -> Mapping[str, object]:
    hidden = get_field(chunk, "hidden_params")
    return cast("Mapping[str, object]", hidden) if isinstance(hidden, dict) else {}
