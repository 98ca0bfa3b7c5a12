"""Blueprint faults: everything that is wrong with a file, each with its line and a fix.

All faults are reported together, so that an author can correct a file in one go. An unknown word is
reported with the nearest known one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from turnlog.events.errors import Refused

Path = tuple[str | int, ...]
"""Keys and list indices (from 0) that lead to a value of a document."""
Lines = Mapping[Path, int]
"""The line of every value of a document, counted from 1."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A fault at a path of a document, before its line is known."""

    path: Path
    what: str
    fix: str


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault at a line of a file."""

    file: str
    line: int
    path: str
    """Dotted, such as `layers.persona.file`; empty for the whole document."""
    what: str
    fix: str

    def __str__(self) -> str:
        subject = f"{self.path}: {self.what}" if self.path else self.what
        return f"{self.file}:{self.line}: {subject}; {self.fix}"


class FaultyBlueprint(Refused):
    """A blueprint that cannot be used; `faults` lists everything that is wrong with it."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(faults, key=lambda fault: (fault.file, fault.line)))
        first, more = self.faults[0], len(self.faults) - 1
        detail = f"{first} (and {more} more)" if more else str(first)
        super().__init__("faulty-blueprint", detail, field="blueprint", fix=first.fix)


def located(file: str, lines: Lines, remark: Remark) -> Fault:
    """Add the line of a finding: that of its path, or of the nearest enclosing value."""
    path = remark.path
    while path and path not in lines:
        path = path[:-1]
    return Fault(file, lines.get(path, 1), dotted(remark.path), remark.what, remark.fix)


def dotted(path: Path) -> str:
    """Format a path: `calls.reply.messages.0`."""
    return ".".join(str(step) for step in path)


def instead_of(word: str, known: Iterable[str]) -> str:
    """Suggest a replacement for an unknown word: the nearest known one, or the list of all."""
    words = sorted(known)
    if near := get_close_matches(word, words, n=1):
        return f"write `{near[0]}`"
    return f"use one of: {', '.join(words)}" if words else "leave it out"
