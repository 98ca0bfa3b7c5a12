"""Sessions whose generator tracks the facts behind each prompt as it creates them.

Every turn makes a call with a blueprint that has one layer for every possible cause of a prompt
change. The facts at each call are stored beside it; nothing is read from a manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from turnlog.events.content import compute_digest
from turnlog.projections.library.segment_selection import SegmentRequest, SelectedSegment


@dataclass(frozen=True, slots=True)
class TrackedTurn:
    """A turn, and the sequences of the events that concern it."""

    text: str
    reply: str
    completed: int | None = None
    excluded: bool = False
    marked: int | None = None
    redacted: int | None = None
    asked: int = 0


@dataclass(frozen=True, slots=True)
class TrackedSubmission:
    """A submitted turn that is not answered yet."""

    text: str
    inputs: Mapping[str, JsonValue]
    asked: tuple[int, ...]
    """The event that submitted it, or those that queued and released it."""


@dataclass(frozen=True, slots=True)
class TrackedSegment:
    """A segment, and the library's sequences of the events that concern it."""

    ref: str | None
    tier: int
    text: str
    active: bool = True
    version: int = 1
    written: int = 0
    switched: int = 0

    @property
    def scope(self) -> str:
        """Its scope."""
        return "npc" if self.ref else "lore"

    def matches_request(self, want: SegmentRequest) -> bool:
        """Tell whether a call asks for it."""
        return (self.scope, self.ref) == (want.scope, want.ref)

    def build_selected_segment(self, number: int) -> SelectedSegment:
        """Give it as a call is given it."""
        digest = compute_digest(self.text)
        return SelectedSegment(
            number, self.scope, self.ref, None, self.version, "a", self.tier, "", "normal", digest,
            self.text,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TrackedFacts:
    """Everything the next call depends on, as the generator knows it."""

    turns: Mapping[int, TrackedTurn] = field(default_factory=dict[int, TrackedTurn])
    shelf: Mapping[int, TrackedSegment] = field(default_factory=dict[int, TrackedSegment])
    phase: tuple[str, int] = ("talk", 2)
    choices: tuple[tuple[str, int], ...] = ()
    pinned: int = 3
    """The event that pinned its prompt file."""
    note: int | None = None
    """The redaction that the next prompt mentions."""
    told: int | None = None
    """The last call whose prompt mentioned a redaction."""
    asked: tuple[int, ...] = ()
    """The events of its own turn: the submission, or queueing and release."""
    fixed: int = 0
    """The last event before its prompt was fixed."""
    text: str = ""
    mood: str | None = None
    people: Mapping[str, int] = field(default_factory=dict[str, int])
    room: int | None = None
