"""What is wrong with a blueprint: every fault at once, each with its line and the way out.

An author mends a file in one go when all its faults are named together. So nothing stops at the
first one, and a word that is not known brings the nearest that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from turnlog.events.errors import Refused

Path = tuple[str | int, ...]
"""Where something stands within a document: keys, and places in lists counted from 0."""
Lines = Mapping[Path, int]
"""The line of everything in a document, counted from 1."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that is wrong at a path, before anybody looked up its line."""

    path: Path
    what: str
    fix: str


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is wrong in a file."""

    file: str
    line: int
    path: str
    """Dotted, `layers.persona.file`; empty for the whole document."""
    what: str
    fix: str

    def __str__(self) -> str:
        subject = f"{self.path}: {self.what}" if self.path else self.what
        return f"{self.file}:{self.line}: {subject}; {self.fix}"


class FaultyBlueprint(Refused):
    """A blueprint that cannot be used; `faults` names everything that is wrong with it."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(faults, key=lambda fault: (fault.file, fault.line)))
        first, more = self.faults[0], len(self.faults) - 1
        detail = f"{first} (and {more} more)" if more else str(first)
        super().__init__("faulty-blueprint", detail, field="blueprint", fix=first.fix)


def located(file: str, lines: Lines, remark: Remark) -> Fault:
    """Give a remark its line: that of its path, or of the nearest thing around it."""
    path = remark.path
    while path and path not in lines:
        path = path[:-1]
    return Fault(file, lines.get(path, 1), dotted(remark.path), remark.what, remark.fix)


def dotted(path: Path) -> str:
    """Spell a path: `calls.reply.messages.0`."""
    return ".".join(str(step) for step in path)


def instead_of(word: str, known: Iterable[str]) -> str:
    """Say what to write instead of an unknown word: the nearest one, or any there is."""
    words = sorted(known)
    if near := get_close_matches(word, words, n=1):
        return f"write `{near[0]}`"
    return f"use one of: {', '.join(words)}" if words else "leave it out"
