"""Blueprint faults: everything that is wrong with a file, each with its line and a fix.

All faults are reported together, so that an author can correct a file in one go. An unknown word is
reported with the nearest known one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal

from turnlog.events.errors import Refused

DocumentPath = tuple[str | int, ...]
"""Keys and list indices (from 0) that lead to a value of a document."""

LineNumbers = Mapping[DocumentPath, int]
"""The line of every value of a document, counted from 1."""


@dataclass(frozen=True, slots=True)
class BlueprintFinding:
    """A fault at a path of a document, before its line is known."""

    path: DocumentPath
    what: str
    fix: str


MAX_LISTED_WORDS: Final = 20

Severity = Literal["error", "warning"]
"""An error keeps a blueprint from being used, a warning does not."""

BlueprintFindings = Iterator[BlueprintFinding]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlueprintFault:
    """A fault at a line of a file."""

    file: str
    line: int
    path: str
    """Dotted, such as `layers.persona.file`; empty for the whole document."""
    what: str
    fix: str
    severity: Severity = "error"

    def __str__(self) -> str:
        subject = f"{self.path}: {self.what}" if self.path else self.what
        return f"{self.file}:{self.line}: {subject}; {self.fix}"


class FaultyBlueprint(Refused):
    """A blueprint that cannot be used; `faults` lists everything that is wrong with it."""

    def __init__(self, faults: Iterable[BlueprintFault]) -> None:
        self.faults = tuple(sorted(faults, key=lambda fault: (fault.file, fault.line)))
        first, more = self.faults[0], len(self.faults) - 1
        detail = f"{first} (and {more} more)" if more else str(first)
        super().__init__("faulty-blueprint", detail, field="blueprint", fix=first.fix)


def locate_finding(
    file: str, lines: LineNumbers, finding: BlueprintFinding, severity: Severity = "error"
) -> BlueprintFault:
    """Add the line of a finding: that of its path, or of the nearest enclosing value."""
    path = finding.path
    while path and path not in lines:
        path = path[:-1]
    line, at = lines.get(path, 1), format_path(finding.path)
    return BlueprintFault(
        file=file, line=line, path=at, what=finding.what, fix=finding.fix, severity=severity
    )


def format_path(path: DocumentPath) -> str:
    """Format a path: `calls.reply.messages.0`."""
    return ".".join(str(step) for step in path)


def suggest_word(word: str, known: Iterable[str]) -> str:
    """Suggest a replacement for an unknown word: the nearest known one, or the list of all."""
    words = sorted(known)
    if near := find_near_word(word, words):
        return f"write `{near}`"
    return f"use one of: {', '.join(words)}" if words else "leave it out"


def find_near_word(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that a word begins, or is most similar to; None if there is none."""
    words = list(known)
    continued = [each for each in words if word and each.startswith(f"{word}_")]
    return next(iter(continued or get_close_matches(word, words, n=1)), None)


def format_words(words: Iterable[str]) -> str:
    """Return words as a list in their order; the end of a long list is only counted."""
    known = list(words)
    more = len(known) - MAX_LISTED_WORDS
    listed = ", ".join(known[:MAX_LISTED_WORDS])
    return f"{listed} and {more} more" if more > 0 else listed


def check_known_name(
    path: DocumentPath, kind: str, name: str, known: Collection[str]
) -> BlueprintFindings:
    """Find a name that no part of the blueprint defines."""
    if name not in known:
        yield BlueprintFinding(path, f"there is no {kind} `{name}`", suggest_word(name, known))
