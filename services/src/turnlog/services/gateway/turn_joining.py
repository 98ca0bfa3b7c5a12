"""The pure join of log events and token events: what a client of a turn stream is sent next.

Token events carry the text while it is generated, log events carry the recorded text. The two
arrive in no mutual order, and token events may be lost, repeated or of an abandoned attempt.
Invariant: the texts sent since the last `attempt-reset` are a prefix of the current attempt's text,
and equal the recorded reply at the end. Nothing here does I/O.
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
"""The maximum number of code points in one `token` event, which bounds what a lost connection
costs.
"""


@dataclass(frozen=True, slots=True)
class Record:
    """What the log says about a turn so far."""

    turn: int
    attempt: int = 0
    """The latest attempt; after the reply, the attempt that produced it."""
    answered: bool = False
    """Whether that attempt gave an answer, even one after which the turn makes another call."""
    given_up: int = 0
    """The latest attempt that gave no answer and was followed by another."""
    partial: str = ""
    """The text of that attempt when it ended without an answer."""
    ending: Ending | None = None
    sequence: int = 0
    """The sequence of the end event."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One event for the client, with the client's cursor after it."""

    name: str
    data: dict[str, JsonValue]
    cursor: Cursor


Step = tuple[Cursor, tuple[Shown, ...]]
"""The new cursor and the events that lead to it."""


def recorded(record: Record, events: Iterable[Recorded]) -> Record:
    """Return the record after the given events; events of other turns change nothing."""
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
            # The text that the model generated before the fallback is void, as if another attempt
            # had begun
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
    """Return the cursor from which a reconnecting client goes on; None when it has had the end.

    Raises `Refused` for a cursor that is ahead of the record or contradicts it. A reply that was
    sent and redacted later ends again with `redact`.
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
    """Return whether a cursor is beyond every token event of its attempt."""
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
    """Apply an event of the token stream.

    Text that was already sent is skipped. Text after a gap is skipped too: the log fills the gap
    later, or a repeated token event does.
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
    """Return a progress event; it carries no text, so the cursor does not change."""
    data: dict[str, JsonValue] = {"call": alive.call, "doing": alive.doing}
    return Shown("progress", data | ({"tool": alive.tool} if alive.tool else {}), at)


def learnt(at: Cursor, record: Record) -> Step:
    """Apply the log's record: move to a new attempt, or send missing text and the end."""
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
    """Return the data of the `done` event, in the format of the turn's phase if it has one."""
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
    return _moved(at, record.attempt, void=record.given_up >= max(1, at.attempt))


def _moved(at: Cursor, attempt: int, *, void: bool) -> Step:
    """Move the cursor to an attempt; send a reset when an attempt was abandoned or text was sent.

    The attempts of intermediate calls send no text, so moving past them sends nothing.
    """
    if attempt <= at.attempt:
        return at, ()
    before, at = at, Cursor(at.turn, attempt)
    return (at, (_reset(at),)) if void or before.offset else (at, ())


def _reset(at: Cursor) -> Shown:
    return Shown("attempt-reset", {"attempt": at.attempt}, at)


def _said(at: Cursor, text: str) -> Step:
    """Send a text in limited pieces, so that a client that reconnects often still makes progress.
    """
    shown = list[Shown]()
    for start in range(0, len(text), PIECE):
        piece = text[start : start + PIECE]
        at = replace(at, offset=at.offset + len(piece))
        shown.append(Shown("token", {"text": piece}, at))
    return at, tuple(shown)


def _filled(at: Cursor, record: Record, text: str) -> Step:
    """Send the missing part of the reply; restart when more text was sent than the reply has."""
    at, reset = _caught_up(at, record)
    if at.offset > len(text):
        at = Cursor(at.turn, at.attempt)
        reset = (_reset(at),)
    at, said = _said(at, text[at.offset :])
    return at, (*reset, *said)


def _told_so_far(at: Cursor, record: Record) -> Step:
    """Send the missing part of an answer that was never completed."""
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
