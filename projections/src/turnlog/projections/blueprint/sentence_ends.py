"""Where sentences end, in every script: one rule for what is held back and for what is cut.

A mark of a script without capitals, such as a danda, ends a sentence by itself. A full stop, and
`!`, `?` or `…`, ends one where white space follows and then no lower-case letter, or between two
letters of a script that has no white space. A line ends with its sentence. Closing quotation marks
and brackets belong to the sentence that they follow.

An end is found once the character after it is known, so the ends of a text that grows stay as they
are. Prompts on record depend on the rule: a change of it needs a new version of the assembler.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from turnlog.projections.blueprint.sentence_marks import (
    CLOSING,
    FULL_STOPS,
    LOWER_CASE,
    OPENING_QUOTES,
    TERMINATORS,
)


class SentenceEnd(NamedTuple):
    """The end of a sentence in a text."""

    end: int
    """Index after its last mark."""
    next_start: int
    """Index after the white space that follows."""


def _parse_code_points(table: str) -> frozenset[str]:
    """Return the characters of a table of code points in hexadecimal, single ones and ranges."""
    bounds = (each.partition("-") for each in table.split())
    ranges = (range(int(first, 16), int(last or first, 16) + 1) for first, _, last in bounds)
    return frozenset(chr(point) for each in ranges for point in each)


def _build_class(characters: frozenset[str]) -> str:
    return "".join(map(re.escape, sorted(characters)))


_FURTHER_MARKS: Final = frozenset("\u0e5a\u0e5b\u0f0d\u0f0e\u0f0f\u0f10\u0f11\u0f12\u037e")
"""Marks of Thai and Tibetan texts, and the Greek question mark, which Unicode counts elsewhere."""

_EMPHASIS: Final = frozenset("*_")
"""What models close bold and italic texts with."""

_LATIN_SET: Final = frozenset("!?\u2026") | _parse_code_points(FULL_STOPS)
_OWN_SET: Final = (_parse_code_points(TERMINATORS) | _FURTHER_MARKS) - _LATIN_SET
_CLOSING_SET: Final = _parse_code_points(CLOSING) | _EMPHASIS

_LATIN: Final = _build_class(_LATIN_SET)
_OWN: Final = _build_class(_OWN_SET)
_MARKS: Final = _LATIN + _OWN
_CLOSE: Final = _build_class(_CLOSING_SET)
# An opening quotation mark after a mark of its own begins the next sentence
_OWN_CLOSE: Final = _build_class(_CLOSING_SET - _parse_code_points(OPENING_QUOTES))
_LOWER: Final = _build_class(_parse_code_points(LOWER_CASE))

_BLANKS: Final = frozenset("\t\x0b\x0c\r\x20\xa0\u1680\u202f\u205f\u3000") | frozenset(
    map(chr, range(0x2000, 0x200B))
)
_LINE_ENDS: Final = frozenset("\n\x85\u2028\u2029")
_BLANK: Final = _build_class(_BLANKS)
_UNSPACED: Final = "\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Chinese and Japanese letters."""

_STOP: Final = re.compile(rf"[{_MARKS}]++|[{_build_class(_LINE_ENDS)}]")
"""Marks side by side, or the end of a line: looked for first, since most characters are neither."""

_END: Final = re.compile(
    # A mark of its own, perhaps among others
    rf"[{_LATIN}]*+[{_OWN}][{_MARKS}]*+[{_OWN_CLOSE}]*+(?P<own>)"
    rf"(?:[{_BLANK}]++(?=[^{_BLANK}])|(?=[^{_MARKS}{_OWN_CLOSE}{_BLANK}]))"
    # Marks that may stand within a sentence
    rf"|[{_LATIN}]++[{_CLOSE}]*+(?P<latin>)[{_BLANK}]++(?=[^{_LOWER}{_BLANK}])"
    # The same between letters that no white space separates
    rf"|(?<=[{_UNSPACED}])[!?.\uff0e]++[{_OWN_CLOSE}]*+(?P<unspaced>)(?=[{_UNSPACED}])"
)

_UNDECIDED: Final = "".join(_LATIN_SET | _OWN_SET | _CLOSING_SET | _BLANKS)

_MAX_UNDECIDED: Final = 64
"""Characters of the end of a growing text that are read again with what follows it."""


def iterate_sentence_ends(text: str) -> Iterator[SentenceEnd]:
    """Yield the ends of the sentences of a text that more of it follows, in order.

    The end of the text is none: what follows decides about it.
    """
    for stop in _STOP.finditer(text):
        if stop[0] in _LINE_ENDS:
            if end := _find_line_end(text, stop.start()):
                yield SentenceEnd(end, stop.end())
        elif found := _END.match(text, stop.start()):
            yield SentenceEnd(found.start(found.lastgroup or 0), found.end())


def _find_line_end(text: str, at: int) -> int:
    """Return the end of the line before an index, without white space; 0 if it has nothing else."""
    while at and text[at - 1] in _BLANKS:
        at -= 1
    return at if at and text[at - 1] not in _LINE_ENDS else 0


def find_last_sentence_end(text: str, most: int) -> int:
    """Return the end of the last sentence within the first `most` characters, or 0."""
    last = 0
    for each in iterate_sentence_ends(text):
        if each.end > most:
            break
        last = each.end
    return last


def find_open_sentence(text: str) -> int:
    """Return where the last sentence of a growing text begins; 0 if none has ended before it."""
    start = 0
    for each in iterate_sentence_ends(text):
        start = each.next_start
    return start


def get_undecided_end(text: str) -> str:
    """Return the end of a growing text that decides, with what follows it, where a sentence ends.

    It is the last character that is no mark, and all after it.
    """
    decided = len(text.rstrip(_UNDECIDED))
    return text[max(0, decided - 1) :][-_MAX_UNDECIDED:]
