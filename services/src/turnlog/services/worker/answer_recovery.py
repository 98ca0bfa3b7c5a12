"""What the token stream still holds of an attempt whose worker went silent.

Only a closed attempt counts as an answer, and only if its tokens join without a gap to the text
whose digest the closing message states. Anything less is recovered as a partial text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from turnlog.events.content import compute_digest
from turnlog.events.store.ports import StampedTokenEvent
from turnlog.events.tokens import AttemptClosed, Token


@dataclass(frozen=True, slots=True)
class RecoveredAnswer:
    """The whole answer of an attempt."""

    text: str
    closed: AttemptClosed


def join_tokens(events: Iterable[StampedTokenEvent], attempt: int) -> str:
    """Join the tokens of an attempt up to the first gap."""
    text = ""
    for stamped in events:
        match stamped.event:
            case Token(attempt=of, offset=offset, text=piece) if of == attempt:
                text += piece if offset == len(text) else ""
            case _:
                pass
    return text


def recover_answer(events: Iterable[StampedTokenEvent], attempt: int) -> RecoveredAnswer | None:
    """Return the whole answer of an attempt, if all of it is stored."""
    stored_events = tuple(events)
    closed = next(
        (
            stamped.event
            for stamped in stored_events
            if isinstance(stamped.event, AttemptClosed) and stamped.event.attempt == attempt
        ),
        None,
    )
    text = join_tokens(stored_events, attempt)
    if closed is None or len(text) != closed.length or compute_digest(text) != closed.digest:
        return None
    return RecoveredAnswer(text, closed)
