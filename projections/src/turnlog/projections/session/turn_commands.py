"""Commands on turns that were answered: how they are displayed, judged and redacted."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.model.redaction_events import (
    ContentErased,
    ErasedTurn,
    ErasureOrigin,
    RedactedSpan,
)
from turnlog.events.model.retrieval_events import FeedbackVote, RetrievalCandidate


@dataclass(frozen=True, slots=True)
class DisplayTurn:
    """Set how user interfaces show a turn."""

    turn: int
    text: str | None = None
    """Display form of the user's text; None leaves it unchanged."""
    reply: str | None = None
    """Display form of the reply; None leaves it unchanged."""


@dataclass(frozen=True, slots=True)
class GiveFeedback:
    """Judge the reply of a turn."""

    turn: int
    vote: FeedbackVote
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveEntryFeedback:
    """Judge one entry of what a turn took from the knowledge."""

    turn: int
    collection: str
    entry: str
    """Its id within the collection."""
    vote: FeedbackVote
    taken: tuple[RetrievalCandidate, ...]
    """What the turn took."""
    revision: int | None = None
    """The revision that is judged; None means the one that the turn took."""
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class RedactReply:
    """Redact a reply; later windows show the replacement."""

    turn: int
    reason: str
    rule: str
    replacement: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactText:
    """Redact what a person submitted; later windows show what stands instead."""

    turn: int
    reason: str
    rule: str
    replacement: str
    """The whole text that stands instead."""
    spans: tuple[RedactedSpan, ...] = ()
    """The parts that are replaced; empty for all of it."""


@dataclass(frozen=True, slots=True)
class RedactTurn:
    """Redact the text of a turn and its reply, as far as neither is yet."""

    text: RedactText
    reply: RedactReply


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginErasure:
    """Let nobody rely on some words any more, since their keys are to be removed."""

    turns: tuple[ErasedTurn, ...]
    """The turns of which something is erased; empty for the whole session."""
    reason: str
    replacement: str
    """What stands instead of each text and reply."""
    leaves: str
    """The keys of other sessions that go with them, in the form of `sealedof`; empty for none."""
    origin: ErasureOrigin | None = None
    reached: tuple[str, ...] = ()
    with_replies: bool = False


@dataclass(frozen=True, slots=True)
class EndErasure:
    """Record that the keys are removed."""

    erased: ContentErased
