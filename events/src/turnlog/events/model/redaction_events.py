"""Events of the redaction family: withheld replies."""

from __future__ import annotations

from typing import ClassVar, Final

from turnlog.events.content import Content, Digest
from turnlog.events.event_model import EventModel

OPERATOR_RULE: Final = "operator"
"""The rule of a reply that a person withholds."""


class ReplyRedacted(EventModel):
    """A reply is withheld; its replacement is used everywhere instead."""

    type: ClassVar[str] = "turnlog.reply-redacted.v1"
    leaf: ClassVar[str] = "redaction"
    sentence: ClassVar[str] = "turn {turn} by {rule}: {reason}"

    turn: int
    """The turn of the reply."""
    reason: str
    """The reason for people."""
    rule: str
    """The rule that caused it; `operator` for a person, who withholds what was shown before."""
    replacement: Content
    """The text used instead."""
    withheld: Digest | None = None
    """Blob of a text that was never recorded as a reply; only the audit role can read it. Its salt
    keeps the text from being guessed from this digest; earlier releases stored none.
    """
    outcomes: str = ""
    """The tools that ran in the turn, each with its outcome, as later prompts include it; empty if
    none ran, or if the turn had ended before.
    """
    kept_results: tuple[int, ...] = ()
    """Sequences of the tool results that are not withheld with the reply: later prompts include
    them, and readers keep them. Rules judged each when it was recorded.
    """


def is_of_ended_turn(event: ReplyRedacted) -> bool:
    """Return whether the turn had ended before its reply was withheld."""
    return event.rule == OPERATOR_RULE and event.withheld is None
