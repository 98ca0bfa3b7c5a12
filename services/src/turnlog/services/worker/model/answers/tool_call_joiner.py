"""Join the tool calls of an answer from the pieces in which servers stream them.

OpenAI's protocol gives each call an index and an id, and its arguments as pieces of JSON. Servers
differ: arguments come as an object, ids are empty, equal or repeated, and the index is missing or
always 0. Which call a piece belongs to is decided here from whatever it has, in `_find_place`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, cast

from pydantic import JsonValue

from turnlog.events.content import encode_canonical
from turnlog.events.storable_text import replace_unstorable, replace_unstorable_members
from turnlog.services.worker.model.answers.chunk_fields import (
    cut_unread,
    encode_unread,
    get_field,
    read_text,
)
from turnlog.services.worker.model.answers.reasoning_joiner import (
    join_fields,
    read_call_signature,
)
from turnlog.services.worker.model.model_types import ModelFailure, ModelToolCall

MAX_CALLS: Final = 1_024
"""Maximum number of calls in one answer, far more than are recorded; each costs time at its end."""

_MARKS: Final = re.compile(r"[\[\]{}\"\\]")


class _ArgumentPieces:
    """The arguments of a call in pieces; whether they are whole is looked at only when asked."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._followed = 0
        """How many pieces `is_whole` has followed."""
        self._depth = 0
        self._in_text = False
        self._escaped_at = -1
        """Place of an escaped character in the piece that is followed next."""
        self._is_whole = False

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add_piece(self, piece: str) -> None:
        if piece:
            self._pieces.append(piece)

    def join(self) -> str:
        return "".join(self._pieces)

    def is_whole(self) -> bool:
        """Return whether all brackets are closed. Each piece is followed once, whoever asks."""
        for piece in self._pieces[self._followed :]:
            self._follow_piece(piece)
        self._followed = len(self._pieces)
        return self._is_whole

    def _follow_piece(self, piece: str) -> None:
        escaped_at = self._escaped_at
        for found in _MARKS.finditer(piece):
            place, mark = found.start(), found[0]
            if place == escaped_at:
                continue
            if self._in_text:
                escaped_at = place + 1 if mark == "\\" else escaped_at
                self._in_text = mark != '"'
            elif mark == '"':
                self._in_text = True
            elif mark != "\\":
                self._depth += 1 if mark in "{[" else -1
                self._is_whole = self._depth == 0
        self._escaped_at = escaped_at - len(piece)


@dataclass(slots=True)
class _StreamedCall:
    """A call as far as it has come."""

    id: str
    name: str
    _: KW_ONLY
    is_object: bool = False
    """The arguments came as an object, so that no piece can follow."""
    arguments: _ArgumentPieces = field(default_factory=_ArgumentPieces)
    signature: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """What stands beside the call."""

    def is_whole(self) -> bool:
        return self.is_object or self.arguments.is_whole()


class ToolCallJoiner:
    """The tool calls of one answer so far."""

    def __init__(self) -> None:
        self._calls: list[_StreamedCall] = []
        self._by_index: dict[int, int] = {}
        self._by_id: dict[str, int] = {}

    @property
    def tool_calls(self) -> tuple[ModelToolCall, ...]:
        """The calls in the order in which they began."""
        return tuple(
            ModelToolCall(
                replace_unstorable(call.id),
                replace_unstorable(call.name),
                replace_unstorable(call.arguments.join()),
                _encode_signature(call.signature),
            )
            for call in self._calls
        )

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add_pieces(self, pieces: Sequence[object]) -> Iterator[str]:
        """Add the pieces of one chunk, and yield the texts that they have.

        Raises `ModelFailure` for arguments that are neither text nor an object, for those that go
        on after their end, and for too many calls.
        """
        if len(pieces) > MAX_CALLS:
            raise ModelFailure("too_long", f"a chunk of it has {len(pieces)} pieces of tool calls")
        continued: set[int] = set()
        for piece in pieces:
            function = get_field(piece, "function") or piece
            named = _CallName(
                _read_index(get_field(piece, "index")),
                read_text(get_field(piece, "id")),
                read_text(get_field(function, "name")),
            )
            arguments, is_object = _read_arguments(get_field(function, "arguments"))
            place = self._find_place(named, continued)
            if place is None:
                place = len(self._calls)
                if place == MAX_CALLS:
                    raise ModelFailure("too_long", f"it has more than {MAX_CALLS} tool calls")
                self._calls.append(_StreamedCall(named.id, named.name, is_object=is_object))
            else:
                self._continue_call(self._calls[place], named, is_object=is_object)
            call, signature = self._calls[place], read_call_signature(piece)
            call.arguments.add_piece(arguments)
            call.signature = join_fields(call.signature, signature)
            self._record_place(place, named)
            continued.add(place)
            yield named.id + named.name + arguments + _encode_signature(signature)

    def _continue_call(self, call: _StreamedCall, named: _CallName, *, is_object: bool) -> None:
        if call.is_object or (is_object and call.arguments):
            detail = f"the arguments of the tool call {call.name[:64]!r} go on after their end"
            raise ModelFailure("malformed", detail, unread=cut_unread(call.arguments.join()))
        call.id, call.name = call.id or named.id, call.name or named.name
        call.is_object = is_object

    def _record_place(self, place: int, named: _CallName) -> None:
        if named.index is not None:
            self._by_index[named.index] = place
        if named.id:
            self._by_id[named.id] = place

    def _find_place(self, named: _CallName, continued: Container[int]) -> int | None:
        """Return which call a piece goes on with; None if it begins one.

        A new id begins a call. Without an id a name does, where the call of that index has another
        name or its whole arguments, or has a piece in this very chunk.
        """
        if named.index is not None:
            place = self._by_index.get(named.index)
        else:
            place = self._by_id.get(named.id, len(self._calls) - 1 if self._calls else None)
        if place is None:
            return None
        call = self._calls[place]
        if named.id and call.id:
            return place if named.id == call.id else None
        if not named.name or not call.name:
            return place
        begins = named.name != call.name or place in continued or call.is_whole()
        return None if begins else place


@dataclass(frozen=True, slots=True)
class _CallName:
    """What a piece says about the call that it belongs to."""

    index: int | None
    id: str
    name: str


def _encode_signature(signature: Mapping[str, JsonValue]) -> str:
    return encode_canonical(replace_unstorable_members(signature)) if signature else ""


def _read_index(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def _read_arguments(value: object) -> tuple[str, bool]:
    """Return the arguments as text, and whether they came as an object."""
    if value is None or isinstance(value, str):
        return value or "", False
    if isinstance(value, dict):
        return json.dumps(cast("dict[str, object]", value), ensure_ascii=False), True
    detail = f"the arguments of a tool call are {type(value).__name__}, not text or an object"
    raise ModelFailure("malformed", detail, unread=encode_unread(value))
