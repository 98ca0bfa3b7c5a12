"""The typed consumer: events of a session or a tenant, stored then live, resumable by cursor.

It only reads and leaves no state on the server. An item counts as handled when the next one is
requested: a consumer that stores the cursor misses nothing after a crash, and may see the last item
twice.

A cursor is a short text. It identifies the log and the session or tenant, so that a cursor from
elsewhere, or from a log that was lost and created again, is refused.

Token events of a turn are yielded between the event that opens it and the one that settles it, and
only if they continue the text yielded before. The received text is therefore always a prefix of the
recorded reply.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.log.ports import LogIdentity
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.tokens import AttemptAlive, AttemptClosed, AttemptReset, Token, TokenEvent
from turnlog.events.turn import (
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnReleased,
    TurnSubmitted,
)

_CURSOR_REGEX: Final = re.compile(r"([0-9a-f]{8})((?:\.[0-9]{1,18})+)")


@dataclass(frozen=True, slots=True)
class TenantPosition:
    """A position among all events of a tenant."""

    stream_sequence: int = 0

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers in the cursor."""
        return (self.stream_sequence,)


@dataclass(frozen=True, slots=True)
class SessionPosition:
    """A position in a session: after an event, and within the reply to its open turn."""

    sequence: int = 0
    turn: int = 0
    """The open turn; 0 if none is open."""
    attempt: int = 0
    """The highest attempt seen of that turn."""
    offset: int = 0
    """Code points received of that attempt; one more after it was closed."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers in the cursor."""
        return (self.sequence, self.turn, self.attempt, self.offset)

    def advance_past(self, event: RecordedEvent) -> SessionPosition:
        """Return the position after an event."""
        match event.event:
            case TurnSubmitted(turn=turn) | TurnReleased(turn=turn):
                return SessionPosition(event.sequence, turn)
            case (
                TurnCompleted(turn=turn)
                | TurnFailed(turn=turn)
                | TurnCancelled(turn=turn)
                | ReplyRedacted(turn=turn)
            ) if turn == self.turn:
                return SessionPosition(event.sequence)
            case _:
                return replace(self, sequence=event.sequence)

    def advance_by_token(self, event: TokenEvent) -> SessionPosition | None:
        """Return the position after a token event; None if it does not continue from here."""
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


StreamPosition = TenantPosition | SessionPosition


@dataclass(frozen=True, slots=True)
class CursorCodec:
    """Formats and parses the cursors of one session or tenant on one log."""

    scope: str

    def format_cursor(self, place: StreamPosition) -> str:
        """Return the cursor of a position."""
        return ".".join((self.scope, *map(str, place.numbers)))

    def parse_tenant_cursor(self, cursor: str | None) -> TenantPosition:
        """Parse a tenant cursor; None is the beginning."""
        return TenantPosition(*self._parse_numbers(cursor, 1)) if cursor is not None else TenantPosition()

    def parse_session_cursor(self, cursor: str | None) -> SessionPosition:
        """Parse a session cursor; None is the beginning."""
        return SessionPosition(*self._parse_numbers(cursor, 4)) if cursor is not None else SessionPosition()

    def _parse_numbers(self, cursor: str, count: int) -> list[int]:
        match = _CURSOR_REGEX.fullmatch(cursor)
        numbers = [int(number) for number in match[2].split(".")[1:]] if match else []
        if match is None or len(numbers) != count or match[1] != self.scope:
            raise build_cursor_refusal("bad-cursor", cursor, "is not a cursor of this stream")
        return numbers


def build_cursor_codec(identity: LogIdentity, tenant: str, session: str | None) -> CursorCodec:
    """Return the codec for cursors of a session, or of all events of a tenant, on this log."""
    named = f"{identity.stream}/{identity.created}/{tenant}/{session or ''}"
    return CursorCodec(sha256(named.encode()).hexdigest()[:8])


def build_cursor_refusal(code: str, cursor: str, detail: str) -> Refused:
    """Return the error for a refused cursor."""
    return Refused(
        code,
        f"{cursor[:80]!r} {detail}",
        field="after",
        fix="give a cursor that this very stream gave, or none to begin at the beginning",
    )
