"""What a call asks of the library, and what it is given: the vocabulary of gathering segments.

What is given is exact (id, version, variant and digest), so that a call which records it can be
assembled again after every later edit. Which of it stands in a prompt is not decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from turnlog.events.content import Digest


@dataclass(frozen=True, slots=True)
class Wanted:
    """The segments of one scope and reference, such as `npc` and `npc.innkeeper`."""

    scope: str
    ref: str | None = None
    """None asks for those that have no reference."""
    required: bool = False
    """Whether the turn is refused, and not merely the poorer, when they cannot be had."""


@dataclass(frozen=True, slots=True)
class Picked:
    """One segment as a call is given it."""

    id: int
    """The segment's number within its tenant."""
    scope: str
    ref: str | None
    locale: str | None
    """The locale it is written in; none for one that stands in wherever no other is found."""
    version: int
    """Which of the segment's versions, from 1."""
    variant: str
    """Which of its variants the session was given; `a` where there is one only."""
    tier: int
    """How much a reader must have found out; 0 is for everyone."""
    type: str
    """What kind of text it is, such as `npc_cue`; empty where nobody said."""
    priority: str
    """`low`, `normal` or `high`."""
    digest: Digest
    """Digest of the blob that holds the text."""
    text: str


@dataclass(frozen=True, slots=True)
class Omitted:
    """What was asked for and could not be given."""

    scope: str
    ref: str | None
    segment: int | None
    """Which segment; none where nothing of the scope and reference could be had."""
    reason: str
    """A sentence for whoever looks after the library."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """Everything one call is given of the library."""

    segments: Mapping[Wanted, tuple[Picked, ...]]
    """For each that was asked for, in the order of their ids; empty where there is none."""
    omitted: tuple[Omitted, ...] = ()
    """What is faulty or could not be had."""
    stale: bool = False
    """Whether the library could not be asked, and this is what was last known of it."""
