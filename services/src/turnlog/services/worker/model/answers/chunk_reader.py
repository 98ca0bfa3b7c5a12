"""Read a streamed answer chunk by chunk: text, pictures, tool calls, and what the model reasons.

A chunk is an object of litellm, loosely typed and different for each provider, or a JSON object of
OpenAI's protocol as its server sent it. Where in it text and calls can stand is listed in
`docs/answers.md`. What litellm makes up itself (a finish reason, usage that it counted) is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Final, cast

from pydantic import JsonValue

from turnlog.events.recorded_reasoning import read_reasoning_text
from turnlog.events.storable_text import replace_unstorable
from turnlog.services.worker.model.answers.answer_media import AnswerMediaReader
from turnlog.services.worker.model.answers.chunk_fields import (
    get_choice,
    get_field,
    read_plain_text,
    read_sequence,
    read_text,
)
from turnlog.services.worker.model.answers.reasoning_joiner import (
    MAX_RECORD_BYTES,
    is_reasoning_part,
    read_reasoning,
)
from turnlog.services.worker.model.answers.tool_call_joiner import ToolCallJoiner
from turnlog.services.worker.model.model_types import (
    MediaDelta,
    ModelFailure,
    ModelToolCall,
    ReasoningDelta,
    TextDelta,
)

MAX_ANSWER_BYTES: Final = MAX_RECORD_BYTES
"""Maximum size of an answer with its tool calls, as JSON: an event must hold it."""

_TEXTLESS_PARTS: Final = frozenset({"reference"})
"""Types of parts that add no text: Mistral's marks of what the text before is from."""


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
        self._media = AnswerMediaReader()
        self._placed: list[tuple[int, MediaDelta]] = []
        """The media of the latest chunk, each with its place in the text of that chunk."""

    @property
    def model(self) -> str | None:
        """The model that answers, as the latest chunk that says so names it."""
        return self._model or None

    @property
    def tool_calls(self) -> tuple[ModelToolCall, ...]:
        return self._calls.tool_calls

    @property
    def is_silent(self) -> bool:
        """Whether neither text nor media nor a tool call has come."""
        return not (self.spoken or self._media or self._calls)

    def read_chunk(self, chunk: object) -> tuple[str, bool]:
        """Return the text of a chunk, and whether the chunk holds anything from the model.

        `split_deltas` returns the text with the media in it. Raises `ModelFailure` for an answer
        that is too long, or of a kind that is not read.
        """
        self._model = _read_answering_model(chunk) or self._model
        if self.received_id is None:
            received = read_text(_get_hidden_parameters(chunk).get("received_model_id"))
            self.received_id = replace_unstorable(received) or None
        delta = self._find_delta(get_choice(chunk))
        if (plain := read_plain_text(delta)) is not None:
            self._reasoning = {}
            return self._join_halves(plain), bool(plain)
        self._reasoning = read_reasoning(delta)
        text = self._read_content(delta)
        pieces = [*read_sequence(get_field(delta, "tool_calls"))]
        # The protocol's word before there were several calls.
        if function := get_field(delta, "function_call"):
            pieces.append({"function": function})
        for said in self._calls.add_pieces(pieces):
            self._count_bytes(said)
        is_token = bool(text or pieces or self._reasoning or self._placed)
        return self._join_halves(text), is_token or bool(get_field(delta, "audio"))

    def split_deltas(self, text: str) -> Iterator[TextDelta | MediaDelta]:
        """Yield the text of the latest chunk and the media in it, in their order, once."""
        placed, self._placed = self._placed, []
        begin = 0
        for at, media in placed:
            if before := text[begin:at]:
                yield TextDelta(before)
            yield media
            begin = max(begin, at)
        if rest := text[begin:]:
            yield TextDelta(rest)

    def pop_reasoning(self) -> ReasoningDelta | None:
        """Return what the latest chunk had of the model's reasoning, once."""
        fields, self._reasoning = self._reasoning, {}
        return build_reasoning_delta(fields) if fields else None

    def read_rest(self) -> str:
        """Return the text that waited for the second half of a surrogate pair, at the end.

        A recording is whole by then, and is the last thing in the answer.
        """
        if recording := self._media.pop_recording():
            self._placed.append((1, recording))
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
        content = get_field(delta, "content")
        contents: list[str | MediaDelta] = [content] if isinstance(content, str) else []
        for part in read_sequence(content):
            kind = get_field(part, "type")
            if is_reasoning_part(part) or kind in _TEXTLESS_PARTS:
                continue
            contents.append(
                self._read_refusal(part) if kind == "refusal" else self._read_part(part)
            )
        contents.append(self._media.read_sound(delta))
        contents.append(self._read_refusal(delta))
        return self._place_media([*contents, *self._media.read_images(delta)])

    def _read_part(self, part: object) -> str | MediaDelta:
        text = part if isinstance(part, str) else get_field(part, "text")
        return text if isinstance(text, str) else self._media.read_part(part)

    def _place_media(self, contents: Sequence[str | MediaDelta]) -> str:
        """Return the texts as one, and note where in it the media are."""
        text = ""
        for each in contents:
            if isinstance(each, MediaDelta):
                self._placed.append((len(text), each))
            else:
                text += each
        return text

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


def _read_answering_model(chunk: object) -> str:
    """Return the provider's name for the model, or the requested name."""
    served = _get_hidden_parameters(chunk).get("provider_response_model")
    return replace_unstorable(read_text(served) or read_text(get_field(chunk, "model")))


def _get_hidden_parameters(chunk: object) -> Mapping[str, object]:
    hidden = get_field(chunk, "hidden_params")
    return cast("Mapping[str, object]", hidden) if isinstance(hidden, dict) else {}
