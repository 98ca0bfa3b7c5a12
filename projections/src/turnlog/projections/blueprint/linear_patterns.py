"""Patterns that are searched in linear time, however hostile the text is.

A blueprint, a cartridge or a script contains them, and models and callers write the texts. Python's
`re` backtracks: three thousand `@` keep a simple pattern of mail addresses busy for half a minute.
The engine here is the `regex` crate of Rust, which pydantic ships: it never backtracks, and it has
neither look-around nor backreferences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Annotated, Final

from pydantic import ConfigDict, StringConstraints, TypeAdapter
from pydantic_core import SchemaError

from turnlog.events.storable_text import replace_unstorable

MATCH_REACH: Final = 4_096
"""Characters of a match that is found wherever it lies in a text; a longer match is found in a text
that fits into one slice."""

MAX_PATTERN_CHARACTERS: Final = 5_000

MAX_ADDED_POSITIONS: Final = 500
"""How much longer a pattern may become when its counted repetitions are written out."""

_SLICE_WORK: Final = 5_000_000
"""Positions times characters that one search may cost; about a tenth of a second at the worst."""

_MIN_SLICE: Final = 2 * MATCH_REACH

_ENGINE: Final = ConfigDict(regex_engine="rust-regex")


class PatternFault(ValueError):
    """Why a pattern cannot be searched in linear time, and what to write instead."""

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.fix = fix


@dataclass(frozen=True)
class LinearPattern:
    """A pattern that was compiled."""

    pattern: str
    slice_length: int
    """Maximum characters of one search. A longer text is searched slice by slice, so that other
    threads run in between."""
    _matches_whole: Callable[[str], bool]

    def has_match(self, text: str) -> bool:
        """Return whether the pattern matches anywhere in a text."""
        text = replace_unstorable(text)
        if len(text) <= self.slice_length:
            return self._matches_whole(text)
        return any(self._has_match_in_slice(text, start) for start in self._iterate_starts(text))

    def _iterate_starts(self, text: str) -> Iterator[int]:
        return iter(range(0, len(text) - MATCH_REACH, self.slice_length - MATCH_REACH))

    def _has_match_in_slice(self, text: str, start: int) -> bool:
        """Search a slice with a character on each side, which anchors and word ends need."""
        end = start + self.slice_length
        inner = text[max(0, start - 1) : end + 1]
        if start == 0:
            return self._matches_before_rest(inner)
        return (self._matches_after_start if end >= len(text) else self._matches_within)(inner)

    @cached_property
    def _matches_before_rest(self) -> Callable[[str], bool]:
        return _compile(f"(?:{self.pattern})(?s:.)")

    @cached_property
    def _matches_after_start(self) -> Callable[[str], bool]:
        return _compile(f"\\A(?s:.)(?s:.*?)(?:{self.pattern})")

    @cached_property
    def _matches_within(self) -> Callable[[str], bool]:
        return _compile(f"\\A(?s:.)(?s:.*?)(?:{self.pattern})(?s:.)")


@lru_cache(maxsize=1_024)
def compile_pattern(pattern: str) -> LinearPattern:
    """Compile a pattern; raise `PatternFault` if the engine cannot run it."""
    slice_length = max(_MIN_SLICE, _SLICE_WORK // max(1, _count_positions(pattern)))
    compiled = LinearPattern(pattern, slice_length, _compile(pattern))
    if "#" in pattern:
        # A pattern that ends within a comment swallows what is written around it.
        _compile(f"(?:{pattern})(?s:.)")
    return compiled


def find_pattern_fault(pattern: str) -> PatternFault | None:
    """Return why a pattern may not be used, or None if it may."""
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        reason = f"it is longer than {MAX_PATTERN_CHARACTERS} characters"
        return PatternFault(reason, "write several rules")
    if _count_positions(pattern) > len(pattern) + MAX_ADDED_POSITIONS:
        reason = f"its repetitions add up to more than {MAX_ADDED_POSITIONS}"
        return PatternFault(reason, "use `*` or `+`, or smaller counts")
    try:
        compile_pattern(pattern)
    except PatternFault as fault:
        return fault
    return None


def _compile(pattern: str) -> Callable[[str], bool]:
    try:
        adapter = TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)], config=_ENGINE)
    except (SchemaError, UnicodeEncodeError) as error:
        raise _explain_fault(str(error)) from None
    return adapter.validator.isinstance_python


def _explain_fault(message: str) -> PatternFault:
    """Turn the engine's message, which repeats the pattern over several lines, into a sentence."""
    reason = message.rpartition("error: ")[2].strip().removesuffix(".")
    if "look-around" in reason:
        fix = "match the words around it as well, or register a check"
        return PatternFault("look-ahead and look-behind cannot be searched in linear time", fix)
    if "backreferences" in reason:
        fix = "write the repeated part out, or register a check"
        return PatternFault("backreferences cannot be searched in linear time", fix)
    if "size limit" in reason:
        return PatternFault("it is too large once compiled", "use `*` or `+`, or smaller counts")
    return PatternFault(
        f"it is no pattern: {reason.splitlines()[-1] if reason else 'it cannot be read'}",
        "write a regular expression of Rust's `regex`: it has neither look-around nor \\1",
    )


_COUNT_DIGITS: Final = 9

_PATTERN_TOKEN: Final = re.compile(
    r"\\[pPxuU]\{[^}]*\}|\\.|\{(?P<least>\d+)(?:,(?P<most>\d*))?\}|.", re.DOTALL
)


def _count_positions(pattern: str) -> int:
    """Return the length of a pattern with its counted repetitions written out.

    An estimate: a character class counts once, and marks such as `*` and `(?i)` as characters.
    """
    groups: list[int] = [0]
    last = classes = 0
    for token in _PATTERN_TOKEN.finditer(pattern):
        mark = token[0]
        if classes or mark == "[":
            last, groups[-1] = (last, groups[-1]) if classes else (1, groups[-1] + 1)
            classes += (mark == "[") - (mark == "]")
        elif mark == "(":
            groups.append(0)
        elif mark == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        elif token["least"] is not None:
            times = max(_read_count(token["least"]), _read_count(token["most"] or "0"))
            groups[-1] += last * max(0, times - 1)
            last *= max(1, times)
        else:
            last = 1
            groups[-1] += 1
    return sum(groups)


def _read_count(digits: str) -> int:
    """Return the count of a repetition; one with more digits than Python reads is beyond any."""
    return int(digits) if len(digits) <= _COUNT_DIGITS else MAX_ADDED_POSITIONS * len(digits)
