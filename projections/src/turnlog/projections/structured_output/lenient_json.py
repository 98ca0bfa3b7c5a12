"""Reads JSON with three faults that models make: trailing commas, single quotes, and a cut end.

One pass over the text writes strict JSON, which the usual parser then reads. It takes time in
proportion to the text, and gives up at the first character that fits nowhere. At a cut end the
brackets are closed after the last complete value: what is incomplete is left out, never completed,
and a text without one complete value stays as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal

from turnlog.projections.blueprint.bounded_json import MAX_JSON_NESTING

TRAILING_COMMA: Final = "a trailing comma taken out"

SINGLE_QUOTES: Final = "single quotes replaced"

CUT_END: Final = "a cut end closed, what was incomplete left out"

_SPACE: Final = re.compile(r"[ \t\r\n]*")

_STRINGS: Final = {
    '"': re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL),
    "'": re.compile(r"'[^'\\]*+(?:\\.[^'\\]*+)*+'", re.DOTALL),
}

_ESCAPE_OR_QUOTE: Final = re.compile(r'\\.|"', re.DOTALL)

_WORD: Final = re.compile(r"[-+.\w]+")

_SCALAR: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null")

_CLOSERS: Final = {"{": "}", "[": "]"}

Expected = Literal["first", "next", "value", "colon", "comma"]
"""What follows: the first member of a container, one after a comma, a member's value, or a sign."""


@dataclass(frozen=True, slots=True)
class LenientScan:
    """What one pass over a text found."""

    end: int
    """The index after the value, or of the character that fits nowhere."""
    json: str | None = None
    """The value as strict JSON; None if there is none."""
    repairs: tuple[str, ...] = ()


def scan_lenient_json(text: str, start: int) -> LenientScan:
    """Read the object or list that begins at an index."""
    scan = _Scan(text=text, at=start)
    while scan.at < len(text):
        if not scan.take_token():
            return LenientScan(scan.at)
        if not scan.stack:
            return LenientScan(scan.at, "".join(scan.written), tuple(scan.repairs))
        scan.skip_space()
    return scan.close_cut_end()


@dataclass(slots=True, kw_only=True)
class _Scan:
    text: str
    at: int
    expected: Expected = "value"
    stack: list[str] = field(default_factory=list[str])
    """The containers that are open, each by its bracket."""
    written: list[str] = field(default_factory=list[str])
    repairs: dict[str, None] = field(default_factory=dict[str, None])
    complete_length: int = 0
    """Number of written pieces up to the last complete value."""
    complete_depth: int = 0
    """Number of containers that were open then."""

    def skip_space(self) -> None:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def take_token(self) -> bool:
        """Read the next token; return whether it fits."""
        char = self.text[self.at]
        match char:
            case "{" | "[":
                return self._open_container(char)
            case "}" | "]":
                return self._close_container(char)
            case "," if self.expected == "comma":
                return self._take_sign(char, "next")
            case ":" if self.expected == "colon":
                return self._take_sign(char, "value")
            case '"' | "'":
                return self._take_string(char)
            case _:
                return self._take_scalar()

    def close_cut_end(self) -> LenientScan:
        """Close what is open after the last complete value."""
        if not self.complete_depth:
            return LenientScan(self.at)
        kept = self.written[: self.complete_length]
        closers = [_CLOSERS[each] for each in reversed(self.stack[: self.complete_depth])]
        return LenientScan(self.at, "".join((*kept, *closers)), (*self.repairs, CUT_END))

    @property
    def _expects_value(self) -> bool:
        if self.expected == "value":
            return True
        return self.expected in {"first", "next"} and self.stack[-1] == "["

    @property
    def _expects_key(self) -> bool:
        return self.expected in {"first", "next"} and self.stack[-1] == "{"

    def _take_sign(self, sign: str, expected: Expected) -> bool:
        self.written.append(sign)
        self.at, self.expected = self.at + 1, expected
        return True

    def _open_container(self, bracket: str) -> bool:
        if len(self.stack) == MAX_JSON_NESTING:
            self.at = len(self.text)  # Nothing from within it is taken.
        if not self._expects_value or len(self.stack) == MAX_JSON_NESTING:
            return False
        self.stack.append(bracket)
        return self._take_sign(bracket, "first")

    def _close_container(self, bracket: str) -> bool:
        is_last = self.expected in {"first", "next", "comma"}
        if not is_last or _CLOSERS[self.stack[-1]] != bracket:
            return False
        if self.expected == "next":
            self.written.pop()
            self.repairs[TRAILING_COMMA] = None
        self.stack.pop()
        self._take_sign(bracket, "comma")
        self._note_complete()
        return True

    def _take_string(self, quote: str) -> bool:
        is_key = self._expects_key
        if not (is_key or self._expects_value):
            return False
        found = _STRINGS[quote].match(self.text, self.at)
        if found is None:
            self.at = len(self.text)
            return True
        self.at = found.end()
        self._write_value(_write_string(found[0]), is_key=is_key)
        if quote == "'":
            self.repairs[SINGLE_QUOTES] = None
        return True

    def _take_scalar(self) -> bool:
        found = _WORD.match(self.text, self.at)
        if found is None or not self._expects_value:
            return False
        if found.end() == len(self.text):  # It may go on.
            self.at = found.end()
            return True
        if not _SCALAR.fullmatch(found[0]):
            return False
        self.at = found.end()
        self._write_value(found[0], is_key=False)
        return True

    def _write_value(self, value: str, *, is_key: bool) -> None:
        self.written.append(value)
        self.expected = "colon" if is_key else "comma"
        if not is_key:
            self._note_complete()

    def _note_complete(self) -> None:
        self.complete_length, self.complete_depth = len(self.written), len(self.stack)


def _write_string(written: str) -> str:
    """Return a string in double quotes."""
    if written.startswith('"'):
        return written
    return f'"{_ESCAPE_OR_QUOTE.sub(_convert_escape, written[1:-1])}"'


def _convert_escape(found: re.Match[str]) -> str:
    return {"\\'": "'", '"': '\\"'}.get(found[0], found[0])
