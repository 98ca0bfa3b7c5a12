"""Join what a model reasons from the pieces in which servers stream it.

Each provider has its own field and form: a text, blocks with a signature, or encrypted items. It
wants them back as it sent them, so they are joined and otherwise left alone. Where litellm or a
server repeats the text of the blocks in a field of its own, the blocks alone are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from json.encoder import encode_basestring
from math import isfinite
from typing import Final, cast

from pydantic import BaseModel, JsonValue

from turnlog.events.content import encode_canonical
from turnlog.events.recorded_reasoning import (
    BLOCK_FIELDS,
    CUT_MARK,
    TEXT_FIELDS,
    read_block_text,
    read_reasoning_text,
)
from turnlog.events.storable_text import replace_unstorable_members
from turnlog.projections.blueprint.bounded_json import MAX_JSON_NESTING
from turnlog.services.worker.model.answers.chunk_fields import get_field, read_sequence
from turnlog.services.worker.model.model_types import ModelFailure

MAX_RECORD_BYTES: Final = 900_000
"""Maximum size of an answer with its tool calls and its reasoning, as JSON in an event."""

MAX_REASONING_BYTES: Final = 8_000_000
"""Bytes of reasoning in one answer, as the JSON of its pieces, after which the answer has failed.

What is longer than a record is recorded cut, but one that does not end is watched and paid for.
"""

_REASONING_PARTS: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
"""Types of the parts of a text that are reasoning."""

_SIGNATURES: Final = {"provider_specific_fields": ("thought_signatures",)}
"""What is kept of litellm's fields beside a message; the others repeat what is read elsewhere."""

_CALL_SIGNATURES: Final = {"provider_specific_fields": ("thought_signature",)}
"""What is kept of its fields beside a tool call."""

_JOINED_TEXTS: Final = ("thinking", "text", "summary", "data")
"""Names of a block's texts that go on in the next piece."""

_ENDS: Final = ("signature", "data", "encrypted_content")
"""Fields with which a block is complete."""


def is_reasoning_part(part: object) -> bool:
    """Return whether a part of a message's content is reasoning."""
    return get_field(part, "type") in _REASONING_PARTS


def read_reasoning(delta: object) -> dict[str, JsonValue]:
    """Return the fields of a delta that are reasoning; empty if it has none."""
    found: dict[str, object] = {
        name: value
        for name in (*TEXT_FIELDS, *BLOCK_FIELDS)
        if name != "content" and (value := get_field(delta, name))
    }
    if parts := [
        each for each in read_sequence(get_field(delta, "content")) if is_reasoning_part(each)
    ]:
        found["content"] = parts
    found |= _pick_fields(delta, _SIGNATURES)
    return {name: _convert_to_json(value) for name, value in found.items()}


def read_call_signature(piece: object) -> dict[str, JsonValue]:
    """Return what stands beside a tool call and goes back with it, from a piece of the call."""
    found: dict[str, object] = {}
    for holder in (piece, get_field(piece, "function")):
        if extra := get_field(holder, "extra_content"):
            found["extra_content"] = extra
        found |= _pick_fields(holder, _CALL_SIGNATURES)
    return {name: _convert_to_json(value) for name, value in found.items()}


def _pick_fields(holder: object, names: Mapping[str, tuple[str, ...]]) -> dict[str, object]:
    picked: dict[str, object] = {}
    for name, inner_names in names.items():
        inner = get_field(holder, name)
        kept = {each: value for each in inner_names if (value := get_field(inner, each))}
        picked |= {name: kept} if kept else {}
    return picked


def _convert_to_json(value: object, depth: int = 0) -> JsonValue:
    """Return plain JSON for a value of litellm; what is none of JSON is its text.

    Raises `ModelFailure` for what is nested deeper than any reader of JSON here takes.
    """
    if depth > MAX_JSON_NESTING:
        raise ModelFailure("malformed", "its reasoning is nested too deep")
    match value:
        case BaseModel():
            return _convert_to_json(value.model_dump(exclude_none=True), depth)
        case dict():
            entries = cast("Mapping[object, object]", value)
            return {str(key): _convert_to_json(each, depth + 1) for key, each in entries.items()}
        case list() | tuple():
            items = read_sequence(cast("object", value))
            return [_convert_to_json(each, depth + 1) for each in items]
        case None | bool() | int() | str():
            return value
        case float() if isfinite(value):
            return value
        case _:
            return str(value)


def join_fields(
    before: Mapping[str, JsonValue], piece: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Return fields with those of the next piece: texts go on, lists get longer."""
    joined = dict(before)
    for name, value in piece.items():
        joined[name] = _join_values(joined.get(name), value)
    return joined


def _join_values(before: JsonValue, value: JsonValue) -> JsonValue:
    match before, value:
        case str(), str():
            return before + value
        case list(), list():
            return _join_blocks(before, value)
        case dict(), dict():
            return join_fields(before, value)
        case _:
            return value if before is None else before


def _join_blocks(before: list[JsonValue], pieces: list[JsonValue]) -> list[JsonValue]:
    blocks = list(before)
    for piece in pieces:
        last = blocks[-1] if blocks else None
        if isinstance(last, dict) and isinstance(piece, dict) and _is_continued(last, piece):
            blocks[-1] = _join_block(last, piece)
        else:
            blocks.append(piece)
    return blocks


def _is_continued(last: Mapping[str, JsonValue], piece: Mapping[str, JsonValue]) -> bool:
    """Return whether a piece goes on with the last block: of its type and place, not ended yet."""
    same = all(
        last.get(name) == piece.get(name) or piece.get(name) is None for name in ("type", "index")
    )
    is_text = any(name in piece for name in _JOINED_TEXTS if name != "data")
    is_ended = any(last.get(name) for name in _ENDS)
    return same and is_text and not is_ended


def _join_block(last: Mapping[str, JsonValue], piece: Mapping[str, JsonValue]) -> JsonValue:
    joined = dict(last)
    for name, value in piece.items():
        was = joined.get(name)
        is_text = name in _JOINED_TEXTS
        joined[name] = _join_values(was, value) if is_text and was else (was or value)
    return joined


class ReasoningJoiner:
    """What a model has reasoned in one answer so far."""

    def __init__(self) -> None:
        self._joined: dict[str, JsonValue] = {}
        """The pieces before `_pieces`."""
        self._pieces: list[Mapping[str, JsonValue]] = []
        self._size = 0
        """Size of `_pieces` as JSON, most of which are the names of fields."""
        self._is_whole = True
        """Whether no piece was left out."""
        self._received = 0
        """Size of all pieces, also of those that were left out."""

    def __bool__(self) -> bool:
        return bool(self._joined or self._pieces)

    def add_piece(self, fields: Mapping[str, JsonValue]) -> None:
        """Add the fields of the next chunk; what no event could hold is left out.

        Raises `ModelFailure` for an answer whose reasoning does not end.
        """
        size = len(encode_canonical(dict(fields)))
        self._received += size
        if self._received > MAX_REASONING_BYTES:
            raise ModelFailure(
                "too_long", f"its reasoning is more than {MAX_REASONING_BYTES} bytes"
            )
        if not self._is_whole:
            return
        self._pieces.append(fields)
        self._size += size
        if self._size > MAX_RECORD_BYTES:
            self._join_added_pieces()
            self._is_whole = len(encode_canonical(self._joined)) <= MAX_RECORD_BYTES

    def _join_added_pieces(self) -> None:
        self._joined = join_fields(self._joined, _join_pieces(self._pieces))
        self._pieces, self._size = [], 0

    def encode_record(self, room: int) -> str:
        """Return what was reasoned as events have it, in so many bytes; empty if nothing was."""
        if not self:
            return ""
        self._join_added_pieces()
        fields = dict(self._joined)
        for name in TEXT_FIELDS:
            if _is_repeated(fields, name):
                del fields[name]
        record = encode_canonical(replace_unstorable_members(fields))
        is_whole = self._is_whole and measure_json_bytes(record) <= room
        return record if is_whole else _cut_record(fields, room)


def _join_pieces(pieces: list[Mapping[str, JsonValue]]) -> dict[str, JsonValue]:
    """Join all pieces; the texts, of which there are thousands, at once."""
    fields: dict[str, JsonValue] = {}
    texts: dict[str, list[str]] = {}
    for piece in pieces:
        rest = dict(piece)
        for name in TEXT_FIELDS:
            text = rest.get(name)
            if isinstance(text, str):
                texts.setdefault(name, []).append(text)
                del rest[name]
        fields = join_fields(fields, rest) if rest else fields
    return {name: "".join(each) for name, each in texts.items()} | fields


def _is_repeated(fields: Mapping[str, JsonValue], name: str) -> bool:
    """Return whether the blocks have the text of a field too, perhaps with other line ends."""
    text = fields.get(name)
    if not isinstance(text, str):
        return False
    words = text.split()
    return any(read_block_text(fields, each).split() == words for each in BLOCK_FIELDS)


def measure_json_bytes(text: str) -> int:
    """Return the size of a text as a value of JSON."""
    return len(encode_basestring(text).encode())


def _cut_record(fields: Mapping[str, JsonValue], room: int) -> str:
    """Return the beginning of the text, with a mark; signed blocks would be worth nothing cut."""
    text = read_reasoning_text(fields)
    name = next((each for each in TEXT_FIELDS if each in fields), TEXT_FIELDS[0])
    kept = len(text)
    while kept:
        cut: dict[str, JsonValue] = {CUT_MARK: {"of": len(text), "to": kept}, name: text[:kept]}
        record = encode_canonical(replace_unstorable_members(cut))
        if measure_json_bytes(record) <= room:
            return record
        kept = kept * 3 // 4
    return encode_canonical({CUT_MARK: {"of": len(text), "to": 0}})
