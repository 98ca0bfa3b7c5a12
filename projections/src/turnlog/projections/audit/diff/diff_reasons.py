"""Diff reasons: the codes for why two prompts differ, with the events behind each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal

from turnlog.events.envelope import RecordedEvent
from turnlog.events.registry import format_event_name

DiffReason = Literal[
    "said", "answered", "failed", "cancelled", "excluded", "restored", "redacted", "told", "choice",
    "phase", "attribute", "resolved", "retrieved", "voted", "called", "returned", "pinned",
    "override", "asked", "library", "variant", "blueprint", "budget", "room", "limit", "time",
    "kind", "profile", "model", "assembler", "summarised", "undone", "purged", "counted",
    "refused", "cut", "unknown",
]  # fmt: skip
"""What happened between two prompts, or what differs in what they were made from."""

_REASON_BY_EVENT: Final[dict[str, DiffReason]] = {
    "turn-submitted": "said",
    "turn-queued": "said",
    "turn-released": "said",
    "turn-completed": "answered",
    "call-completed": "answered",
    "tool-called": "called",
    "tool-returned": "returned",
    "turn-failed": "failed",
    "turn-cancelled": "cancelled",
    "turn-excluded": "excluded",
    "turn-restored": "restored",
    "reply-redacted": "redacted",
    "text-redacted": "redacted",
    "context-assembled": "told",
    "choice-recorded": "choice",
    "phase-entered": "phase",
    "turn-resolved": "resolved",
    "knowledge-retrieved": "retrieved",
    "prompts-snapshotted": "pinned",
    "tools-snapshotted": "pinned",
    "schemas-requested": "asked",
    "segments-added": "library",
    "segments-edited": "library",
    "segments-activated": "library",
    "segments-deactivated": "library",
    "session-opened": "blueprint",
    "blueprint-moved": "blueprint",
    "profile-switched": "profile",
    "history-summarised": "summarised",
    "summary-undone": "undone",
    "memory-purged": "purged",
}

ReasonEvent = tuple[DiffReason, RecordedEvent | None]


def classify_events(events: Iterable[RecordedEvent]) -> Iterator[ReasonEvent]:
    """Yield each event with the reason code for its type."""
    for recorded in events:
        yield _REASON_BY_EVENT.get(format_event_name(recorded.envelope.type), "unknown"), recorded


def assign_reason(
    what: DiffReason, events: Iterable[RecordedEvent | None]
) -> Iterator[ReasonEvent]:
    """Yield each event with the given reason."""
    for recorded in events:
        yield what, recorded
