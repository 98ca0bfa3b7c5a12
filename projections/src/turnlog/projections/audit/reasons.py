"""Diff reasons: the codes for why two prompts differ, with the events behind each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from turnlog.events.envelope import Recorded
from turnlog.events.kinds import name_of
from turnlog.projections.audit.origins import Cause, cause

Reason = Literal[
    "said", "answered", "failed", "cancelled", "excluded", "restored", "redacted", "told", "choice",
    "phase", "attribute", "resolved", "returned", "pinned", "asked", "library", "variant",
    "blueprint", "budget", "room", "limit", "time", "kind", "profile", "model", "assembler",
    "summarised", "undone", "purged", "unknown",
]  # fmt: skip
"""What happened between two prompts, or what differs in what they were made from."""

_BY_EVENT: Final[dict[str, Reason]] = {
    "turn-submitted": "said",
    "turn-queued": "said",
    "turn-released": "said",
    "turn-completed": "answered",
    "call-completed": "answered",
    "tool-returned": "returned",
    "turn-failed": "failed",
    "turn-cancelled": "cancelled",
    "turn-excluded": "excluded",
    "turn-restored": "restored",
    "reply-redacted": "redacted",
    "context-assembled": "told",
    "choice-recorded": "choice",
    "phase-entered": "phase",
    "turn-resolved": "resolved",
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

Found = tuple[Reason, Recorded | None]


@dataclass(frozen=True, slots=True)
class Because:
    """One reason, and the events behind it."""

    what: Reason
    by: tuple[Cause, ...]
    """Empty if the reason is no event: a clock, an installation."""


def grouped(found: Iterable[Found]) -> tuple[Because, ...]:
    """Group events by reason, each event once and in order."""
    by: dict[Reason, dict[tuple[str, int, str], Recorded]] = {}
    for what, recorded in found:
        held = by.setdefault(what, {})
        if recorded:
            # A session may have the same name as a family of the library.
            held[recorded.session, recorded.sequence, recorded.envelope.type] = recorded
    return tuple(
        Because(what, tuple(cause(held[at]) for at in sorted(held))) for what, held in by.items()
    )


def told(events: Iterable[Recorded]) -> Iterator[Found]:
    """Yield each event with the reason code for its type."""
    for recorded in events:
        yield _BY_EVENT.get(name_of(recorded.envelope.type), "unknown"), recorded


def named(what: Reason, events: Iterable[Recorded | None]) -> Iterator[Found]:
    """Yield each event with the given reason."""
    for recorded in events:
        yield what, recorded
