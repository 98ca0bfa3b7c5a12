"""Parts of a Markdown document: its sections, small ones together, large ones divided."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

CHUNK_CHARACTERS: Final = 2_000
"""The length up to which paragraphs are put together; a longer paragraph is divided."""

_HEADING: Final = re.compile(r"(#{1,6})\s+(.+?)\s*#*\s*$")

_FENCE: Final = re.compile(r"\s*(```|~~~)")


@dataclass(frozen=True, slots=True)
class MarkdownChunk:
    """A part of a document."""

    line: int
    """The line on which it begins."""
    title: str
    """The headings that it is under."""
    text: str


@dataclass(frozen=True, slots=True)
class _Section:
    line: int
    title: str
    text: str


def split_markdown(text: str) -> Iterator[MarkdownChunk]:
    """Yield the parts of a document; a heading is the title of a part and not in its text."""
    for section in _iterate_sections(text):
        line, taken = section.line, ""
        for paragraph in _iterate_paragraphs(section.text):
            if taken and len(taken) + len(paragraph) > CHUNK_CHARACTERS:
                yield MarkdownChunk(line, section.title, taken.strip())
                line, taken = line + taken.count("\n"), ""
            taken += paragraph
        if taken.strip():
            yield MarkdownChunk(line, section.title, taken.strip())


def _iterate_sections(text: str) -> Iterator[_Section]:
    headings: list[tuple[int, str]] = []
    first, lines = 1, list[str]()
    is_fenced = False
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        is_fenced ^= _FENCE.match(line) is not None
        heading = None if is_fenced else _HEADING.match(line)
        if heading is None:
            lines.append(line)
            continue
        yield _Section(first, _format_title(headings), "".join(lines))
        depth = len(heading[1])
        headings = [each for each in headings if each[0] < depth] + [(depth, heading[2])]
        first, lines = number + 1, []
    yield _Section(first, _format_title(headings), "".join(lines))


def _format_title(headings: list[tuple[int, str]]) -> str:
    return " > ".join(title for _, title in headings)[:300]


def _iterate_paragraphs(text: str) -> Iterator[str]:
    """Yield paragraphs with the blank lines after them, and pieces of those that are too long."""
    for paragraph in re.split(r"(?<=\n)(?=[^\n]*\S)(?<=\n\n)", text):
        for start in range(0, len(paragraph), CHUNK_CHARACTERS):
            yield paragraph[start : start + CHUNK_CHARACTERS]
