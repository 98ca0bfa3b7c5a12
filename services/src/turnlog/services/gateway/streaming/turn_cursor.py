"""The cursor of a turn stream: how much of it a client has received, as a short string.

`3.1.120` is turn 3, attempt 1, after 120 code points of its text; `3.1.120.done` means that the end
was sent too. The cursor is the id of every event, so `Last-Event-ID` is all the state there is: no
gateway keeps a record of its clients.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from turnlog.events.errors import Refused
from turnlog.events.log_token_join import ReceivedText, ReplyPosition

StreamEnd = Literal["done", "redact", "failed", "cancelled"]
"""How a stream ends; also the names of its last event."""

_NUMBER_PATTERN: Final = "(0|[1-9][0-9]{0,8})"

_END_PATTERN: Final = "(done|redact|failed|cancelled)"

_CURSOR_PATTERN: Final = re.compile(
    rf"{_NUMBER_PATTERN}\.{_NUMBER_PATTERN}\.{_NUMBER_PATTERN}(?:\.{_END_PATTERN})?"
)


@dataclass(frozen=True, slots=True)
class TurnCursor:
    """A position in a turn stream."""

    turn: int
    attempt: int = 0
    """The attempt whose text was sent; 0 before the first."""
    offset: int = 0
    """How many code points of that text were sent."""
    end: StreamEnd | None = None
    """The end that was sent."""
    received: ReceivedText | None = field(default=None, compare=False, repr=False)
    """What was sent as far as it is known, to compare with the record; not part of the string."""

    @property
    def position(self) -> ReplyPosition:
        """The position in the turn's reply."""
        return ReplyPosition(self.turn, self.attempt, self.offset, received=self.received)

    def __str__(self) -> str:
        place = f"{self.turn}.{self.attempt}.{self.offset}"
        return f"{place}.{self.end}" if self.end else place


def create_turn_cursor(position: ReplyPosition) -> TurnCursor:
    """Return the cursor at a position; a client is not told that an attempt was closed."""
    return TurnCursor(position.turn, position.attempt, position.offset, received=position.received)


def parse_turn_cursor(text: str, turn: int) -> TurnCursor:
    """Return the cursor that a string encodes.

    Refuses what no stream of this turn can have sent.
    """
    found = _CURSOR_PATTERN.fullmatch(text)
    if found is None:
        raise create_cursor_refusal("it is not a cursor of a turn's stream")
    of, attempt, offset = (int(number) for number in found.groups()[:3])
    if of != turn:
        raise create_cursor_refusal(f"it is a cursor of turn {of}, not of turn {turn}")
    if attempt == 0 < offset:
        raise create_cursor_refusal("no text comes before the first attempt")
    return TurnCursor(turn, attempt, offset, cast("StreamEnd | None", found[4]))


def create_cursor_refusal(detail: str) -> Refused:
    """Return the error for an invalid cursor."""
    return Refused(
        "bad-cursor",
        detail,
        field="Last-Event-ID",
        fix="send the id of the last event you received, or none to start from the beginning",
    )
