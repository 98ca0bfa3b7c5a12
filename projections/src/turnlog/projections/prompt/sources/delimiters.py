"""Delimiters around the layers of a message, and protection of texts that imitate them.

A line imitates a delimiter if a reader could mistake it for one, whatever invisible characters,
letter widths or layer names it uses. Such a line is indented by one space. Nothing else in a text
is changed.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import groupby
from typing import Final
from unicodedata import category, normalize

from turnlog.projections.blueprint.schema.call_specs import MessageFormat

_LAYER_PLACEHOLDER: Final = re.compile(r"\{(?:LAYER|layer)\}")

_INVISIBLE_CATEGORIES: Final = frozenset("CMZ")
"""Unicode categories that a reader does not see: controls and formats, marks, separators."""

_INVISIBLE_ASCII: Final = dict.fromkeys((*range(0x21), 0x7F))
"""The invisible ASCII characters: most lines are ASCII, and this path is faster."""


# There are few layers, and their delimiters are needed at every step of every call.
@lru_cache(1_024)
def format_delimiter(template: str, layer: str) -> str:
    """Return a delimiter template filled with a layer's name."""
    return template.replace("{LAYER}", layer.upper()).replace("{layer}", layer)


def format_opening(form: MessageFormat, layer: str) -> str:
    """Return the opening delimiter and a line end; empty if the format has none."""
    return format_delimiter(form.open, layer) + "\n" if form.open else ""


def format_closing(form: MessageFormat, layer: str) -> str:
    """Return a line end and the closing delimiter; empty if the format has none."""
    return "\n" + format_delimiter(form.close, layer) if form.close else ""


def find_imitations(form: MessageFormat, text: str) -> tuple[int, ...]:
    """Return the offsets of lines that imitate a delimiter of this format."""
    pattern = _compile_pattern(form.open, form.close)
    if pattern is None or pattern[0] not in normalize("NFKC", text).casefold():
        return ()
    found: list[int] = []
    begins = 0
    for line in text.splitlines(keepends=True):
        if pattern[1].fullmatch(_normalise_visible(line)):
            found.append(begins)
        begins += len(line)
    return tuple(found)


def indent_lines(text: str, places: tuple[int, ...]) -> str:
    """Insert a space at each of these offsets."""
    ends = (*places[1:], len(text))
    lines = (f" {text[begin:end]}" for begin, end in zip(places, ends, strict=False))
    return text[: places[0]] + "".join(lines) if places else text


# There are few formats, and each is needed for every text of every call.
@cache
def _compile_pattern(*templates: str) -> tuple[str, re.Pattern[str]] | None:
    """Return the common first character of all delimiters, and the pattern of imitations."""
    written = [template for template in templates if template]
    if not written:
        return None
    looks = "|".join(_build_imitation_pattern(template) for template in written)
    first = {_normalise_visible(_LAYER_PLACEHOLDER.sub("", template))[:1] for template in written}
    return (first.pop() if len(first) == 1 else ""), re.compile(looks)


def _build_imitation_pattern(template: str) -> str:
    """Return a pattern that matches any layer name and any repetition of punctuation."""
    between = [
        _escape_repeatable(_normalise_visible(literal))
        for literal in _LAYER_PLACEHOLDER.split(template)
    ]
    return r"[\w-]*".join(between)


def _escape_repeatable(literal: str) -> str:
    runs = ((sign, len(list(run))) for sign, run in groupby(literal))
    return "".join(
        re.escape(sign) * length if sign.isalnum() else f"{re.escape(sign)}+"
        for sign, length in runs
    )


def _normalise_visible(line: str) -> str:
    """Return the visible characters of a line, with case and width folded."""
    if line.isascii():
        return line.translate(_INVISIBLE_ASCII).casefold()
    plain = normalize("NFKC", line).casefold()
    return "".join(each for each in plain if category(each)[0] not in _INVISIBLE_CATEGORIES)
