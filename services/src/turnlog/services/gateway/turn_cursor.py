"""The cursor of a turn's stream: how far one watcher has got, in one short string.

`3.1.120` is turn 3, attempt 1, behind 120 code points of its text; `3.1.120.done` says besides
that the stream had its end. It is the id of every event sent, so that what a client sends back
as Last-Event-ID is all that has to be known of it: no gateway remembers a watcher.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, cast

from turnlog.events.errors import Refused

End = Literal["done", "redact", "failed", "cancelled"]
"""How a stream ends; also the names of the events that end it."""

_NUMBER: Final = "(0|[1-9][0-9]{0,8})"
_END: Final = "(done|redact|failed|cancelled)"
_CURSOR: Final = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:\.{_END})?")


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a turn's stream."""

    turn: int
    attempt: int = 0
    """The attempt whose text was shown; 0 before the first."""
    offset: int = 0
    """Code points shown of it."""
    end: End | None = None
    """The end that was shown."""

    def __str__(self) -> str:
        place = f"{self.turn}.{self.attempt}.{self.offset}"
        return f"{place}.{self.end}" if self.end else place


def cursor(text: str, turn: int) -> Cursor:
    """Read a cursor; refuses what no stream of this turn can have sent."""
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise bad_cursor("it is not a cursor of a turn's stream")
    of, attempt, offset = (int(number) for number in found.groups()[:3])
    if of != turn:
        raise bad_cursor(f"it is a cursor of turn {of}, not of turn {turn}")
    if attempt == 0 < offset:
        raise bad_cursor("nothing is said before the first attempt")
    return Cursor(turn, attempt, offset, cast("End | None", found[4]))


def bad_cursor(detail: str) -> Refused:
    """Refuse a cursor."""
    return Refused(
        "bad-cursor",
        detail,
        field="Last-Event-ID",
        fix="send back the id of the last event you got, or none to begin anew",
    )
