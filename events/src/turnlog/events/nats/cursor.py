"""Cursors: where a consumer has got to, as a short text it keeps and hands back.

A cursor names the log and the session or tenant it belongs to, so that one from elsewhere, or
from a log that was lost and made anew, is refused and not taken for a place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from turnlog.events.envelope import Recorded
from turnlog.events.errors import Refused
from turnlog.events.log.ports import Identity
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.tokens import AttemptAlive, AttemptClosed, AttemptReset, Token, TokenEvent
from turnlog.events.turn import (
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnReleased,
    TurnSubmitted,
)

_CURSOR: Final = re.compile(r"([0-9a-f]{8})((?:\.[0-9]{1,18})+)")


@dataclass(frozen=True, slots=True)
class InTenant:
    """A place among all events of a tenant."""

    stream_sequence: int = 0

    @property
    def numbers(self) -> tuple[int, ...]:
        """What the cursor carries."""
        return (self.stream_sequence,)


@dataclass(frozen=True, slots=True)
class InSession:
    """A place in a session: after an event, and so far into the reply to its open turn."""

    sequence: int = 0
    turn: int = 0
    """The turn that is open here; 0 where none is."""
    attempt: int = 0
    """The highest attempt heard of it."""
    offset: int = 0
    """Code points heard of that attempt; one more once it was closed."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """What the cursor carries."""
        return (self.sequence, self.turn, self.attempt, self.offset)

    def after(self, event: Recorded) -> InSession:
        """Give the place behind an event."""
        match event.event:
            case TurnSubmitted(turn=turn) | TurnReleased(turn=turn):
                return InSession(event.sequence, turn)
            case (
                TurnCompleted(turn=turn)
                | TurnFailed(turn=turn)
                | TurnCancelled(turn=turn)
                | ReplyRedacted(turn=turn)
            ) if turn == self.turn:
                return InSession(event.sequence)
            case _:
                return replace(self, sequence=event.sequence)

    def hearing(self, event: TokenEvent) -> InSession | None:
        """Give the place behind a token event; none for one that does not go on from here."""
        later = event.attempt > self.attempt
        here = 0 if later else self.offset
        match event:
            case _ if event.attempt < self.attempt:
                return None
            case Token(offset=offset, text=text) if text and offset == here:
                return replace(self, attempt=event.attempt, offset=offset + len(text))
            case AttemptClosed(length=length) if length == here:
                return replace(self, attempt=event.attempt, offset=length + 1)
            case AttemptReset() if later:
                return replace(self, attempt=event.attempt, offset=0)
            case Token() | AttemptClosed() | AttemptReset() | AttemptAlive():
                return None


Place = InTenant | InSession


@dataclass(frozen=True, slots=True)
class Cursors:
    """The cursors of one session or tenant on one log."""

    scope: str

    def spell(self, place: Place) -> str:
        """Spell a place as a cursor."""
        return ".".join((self.scope, *map(str, place.numbers)))

    def in_tenant(self, cursor: str | None) -> InTenant:
        """Read a cursor back; none is the beginning."""
        return InTenant(*self._numbers(cursor, 1)) if cursor is not None else InTenant()

    def in_session(self, cursor: str | None) -> InSession:
        """Read a cursor back; none is the beginning."""
        return InSession(*self._numbers(cursor, 4)) if cursor is not None else InSession()

    def _numbers(self, cursor: str, count: int) -> list[int]:
        match = _CURSOR.fullmatch(cursor)
        numbers = [int(number) for number in match[2].split(".")[1:]] if match else []
        if match is None or len(numbers) != count or match[1] != self.scope:
            raise refused("bad-cursor", cursor, "is not a cursor of this stream")
        return numbers


def cursors_of(identity: Identity, tenant: str, session: str | None) -> Cursors:
    """Give the cursors of a session, or of all events of a tenant, on this log."""
    named = f"{identity.stream}/{identity.created}/{tenant}/{session or ''}"
    return Cursors(sha256(named.encode()).hexdigest()[:8])


def refused(code: str, cursor: str, detail: str) -> Refused:
    """Refuse a cursor."""
    return Refused(
        code,
        f"{cursor[:80]!r} {detail}",
        field="after",
        fix="give a cursor that this very stream gave, or none to begin at the beginning",
    )
