"""Joining tokens and record: what a watcher of a turn is to be shown next.

Tokens say what is being said, the record says what was said; they come in no order between
them, and tokens may be lost, repeated or those of an attempt that was given up. Whatever comes,
the texts shown since the last `attempt-reset` are the beginning of the current attempt's text,
and all of the recorded reply once the stream is done. Nothing in here waits or sends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, assert_never

from pydantic import JsonValue

from turnlog.events.call import AttemptEnded, AttemptStarted
from turnlog.events.content import Content, Plain
from turnlog.events.envelope import Recorded
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.tokens import AttemptAlive, AttemptReset, Token, TokenEvent
from turnlog.events.turn import Fallback, TurnCancelled, TurnCompleted, TurnFailed
from turnlog.services.gateway.turn_cursor import Cursor, End, bad_cursor

Ending = TurnCompleted | TurnFailed | TurnCancelled | ReplyRedacted

PIECE: Final = 512
"""Code points shown at once, at the most: what is lost with a connection is never much."""


@dataclass(frozen=True, slots=True)
class Record:
    """What the log says of a turn so far."""

    turn: int
    attempt: int = 0
    """The latest attempt; once there is a reply, the one that gave it."""
    answered: bool = False
    """Whether that attempt gave an answer, be it one that the turn went on from."""
    given_up: int = 0
    """The latest attempt that gave none and was followed by another."""
    partial: str = ""
    """What that attempt had said when it ended without answering."""
    ending: Ending | None = None
    sequence: int = 0
    """Where the ending stands."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One event for a watcher; its cursor says where it leaves them."""

    name: str
    data: dict[str, JsonValue]
    cursor: Cursor


Step = tuple[Cursor, tuple[Shown, ...]]
"""Where a watcher stands now, and what to show them for it."""


def recorded(record: Record, events: Iterable[Recorded]) -> Record:
    """Add events of the turn's session to its record; those of other turns change nothing."""
    for event in events:
        if getattr(event.event, "turn", None) == record.turn:
            record = _evolve(record, event)
    return record


def _evolve(record: Record, recorded: Recorded) -> Record:
    match recorded.event:
        case AttemptStarted(attempt=attempt):
            given_up = record.given_up if record.answered else record.attempt
            return Record(record.turn, attempt, given_up=given_up)
        case AttemptEnded(attempt=attempt, outcome=outcome) as ended if attempt == record.attempt:
            answered = outcome == "answered"
            return replace(record, answered=answered, partial=_text(ended.partial))
        case TurnCompleted(fallback=Fallback()) as ending:
            # What the model had said by then is void, as if one more attempt had begun
            said = bool(record.partial)
            given_up = record.attempt if said else record.given_up
            return replace(
                record,
                attempt=record.attempt + said,
                given_up=given_up,
                ending=ending,
                sequence=recorded.sequence,
            )
        case TurnCompleted() | TurnFailed() | TurnCancelled() | ReplyRedacted() as ending:
            return replace(record, ending=ending, sequence=recorded.sequence)
        case _:
            return record


def _text(content: Content | None) -> str:
    return content.text if isinstance(content, Plain) else ""


def resumed(at: Cursor, record: Record) -> Cursor | None:
    """Say where to go on for a watcher who comes back; none when they have been shown the end.

    Refuses a cursor that is ahead of the record or contradicts it. A reply that was shown and
    then redacted has its end once more.
    """
    end = _end(record)
    if at.attempt > record.attempt:
        raise bad_cursor(f"turn {at.turn} has had no attempt {at.attempt}")
    if at.end and at.end != end and (at.end, end) != ("done", "redact"):
        raise bad_cursor(f"the stream of turn {at.turn} has not ended with {at.end}")
    match record.ending:
        case TurnCompleted(text=Plain(text=text)) if at.attempt == record.attempt:
            if at.offset > len(text):
                raise bad_cursor(f"the reply of turn {at.turn} has {len(text)} code points")
        case _:
            pass
    return None if at.end and at.end == end else replace(at, end=None)


def ahead(at: Cursor, events: Iterable[TokenEvent]) -> bool:
    """Tell whether a cursor lies behind everything its attempt is known to have said."""
    ends = [
        event.offset + len(event.text)
        for event in events
        if isinstance(event, Token) and event.attempt == at.attempt
    ]
    return bool(ends) and at.offset > max(ends)


def _end(record: Record) -> End | None:
    match record.ending:
        case None:
            return None
        case TurnCompleted():
            return "done"
        case TurnFailed():
            return "failed"
        case TurnCancelled():
            return "cancelled"
        case ReplyRedacted():
            return "redact"
        case _ as never:
            assert_never(never)


def heard(at: Cursor, event: TokenEvent) -> Step:
    """Take in what came over TOKENS.

    What was shown already is left out. A piece behind a gap is left out too: the record will
    fill the gap, or whoever reads TOKENS will.
    """
    if at.end or event.attempt < at.attempt:
        return at, ()
    at, reset = _moved(at, event.attempt, void=isinstance(event, AttemptReset))
    match event:
        case AttemptAlive(doing=doing) if doing and not at.offset:
            return at, (*reset, _progress(at, event))
        case Token(offset=offset, text=text) if offset <= at.offset:
            at, said = _said(at, text[at.offset - offset :])
            return at, (*reset, *said)
        case _:
            return at, reset


def _progress(at: Cursor, alive: AttemptAlive) -> Shown:
    """Tell what is being done; it is no part of what is said, so nobody stands elsewhere for it."""
    data: dict[str, JsonValue] = {"call": alive.call, "doing": alive.doing}
    return Shown("progress", data | ({"tool": alive.tool} if alive.tool else {}), at)


def learnt(at: Cursor, record: Record) -> Step:
    """Take in what the log says: a new attempt, or the end with whatever is missing before it."""
    if at.end:
        return at, ()
    match record.ending:
        case None:
            return _caught_up(at, record)
        case ReplyRedacted(reason=reason, replacement=replacement):
            return _ended(at, "redact", {"reason": reason, "replacement": _text(replacement)})
        case TurnFailed(code=code, retryable=retryable):
            data: dict[str, JsonValue] = {"code": code, "retryable": retryable}
            data["partial"] = record.partial[:PIECE]
            return _after(_told_so_far(at, record), "failed", data)
        case TurnCancelled(reason=reason):
            return _after(_caught_up(at, record), "cancelled", {"reason": reason})
        case TurnCompleted() as reply:
            return _after(_filled(at, record, _text(reply.text)), "done", _summary(reply, record))
        case _ as never:
            assert_never(never)


def _summary(reply: TurnCompleted, record: Record) -> dict[str, JsonValue]:
    """Say what the turn came to, in the form of its phase where it has one."""
    exchange = reply.exchange
    if exchange is None:
        data: dict[str, JsonValue] = {"finish": reply.finish, "turn": reply.turn}
        instead: dict[str, JsonValue] = {"fallback": reply.fallback.code} if reply.fallback else {}
        return {**data, **instead, "sequence": record.sequence}
    if exchange.kind == "debrief":
        return {"debrief_complete": True}
    return {
        "phase_transition": exchange.signal,
        "next_phase": exchange.next,
        "exchanges_count": exchange.count,
    }


def _caught_up(at: Cursor, record: Record) -> Step:
    """Go on to the latest attempt that the log knows."""
    return _moved(at, record.attempt, void=record.given_up >= max(1, at.attempt))


def _moved(at: Cursor, attempt: int, *, void: bool) -> Step:
    """Go on to an attempt; says so where one was given up, or where anything was shown before.

    The attempts at calls that a turn goes on from show nothing, and are passed over in silence.
    """
    if attempt <= at.attempt:
        return at, ()
    before, at = at, Cursor(at.turn, attempt)
    return (at, (_reset(at),)) if void or before.offset else (at, ())


def _reset(at: Cursor) -> Shown:
    return Shown("attempt-reset", {"attempt": at.attempt}, at)


def _said(at: Cursor, text: str) -> Step:
    """Show a text piece by piece, so that whoever is cut off again and again still gets on."""
    shown = list[Shown]()
    for start in range(0, len(text), PIECE):
        piece = text[start : start + PIECE]
        at = replace(at, offset=at.offset + len(piece))
        shown.append(Shown("token", {"text": piece}, at))
    return at, tuple(shown)


def _filled(at: Cursor, record: Record, text: str) -> Step:
    """Show what is missing of the reply; begin anew where more than the reply was shown."""
    at, reset = _caught_up(at, record)
    if at.offset > len(text):
        at = Cursor(at.turn, at.attempt)
        reset = (_reset(at),)
    at, said = _said(at, text[at.offset :])
    return at, (*reset, *said)


def _told_so_far(at: Cursor, record: Record) -> Step:
    """Show what is missing of an answer that was never whole."""
    at, reset = _caught_up(at, record)
    missing = record.partial[at.offset :] if at.attempt == record.attempt else ""
    at, said = _said(at, missing)
    return at, (*reset, *said)


def _after(step: Step, end: End, data: dict[str, JsonValue]) -> Step:
    at, before = step
    at, last = _ended(at, end, data)
    return at, (*before, *last)


def _ended(at: Cursor, end: End, data: dict[str, JsonValue]) -> Step:
    at = replace(at, end=end)
    return at, (Shown(end, data, at),)
