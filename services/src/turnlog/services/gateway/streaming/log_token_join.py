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

from turnlog.events.content import Content, PlainText
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import AttemptEnded, AttemptStarted
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.turn_events import (
    ReplyFallback,
    TurnCancelled,
    TurnCompleted,
    TurnEndEvent,
    TurnFailed,
    find_turn_end,
)
from turnlog.events.tokens import AttemptAlive, AttemptReset, Token, TokenEvent
from turnlog.services.gateway.streaming.turn_cursor import (
    StreamEnd,
    TurnCursor,
    create_cursor_refusal,
)

MAX_TOKEN_TEXT: Final = 512
"""The maximum number of code points in one `token` event, which bounds what a lost connection
costs.
"""


@dataclass(frozen=True, slots=True)
class TurnStreamRecord:
    """What the log says about a turn so far."""

    turn: int
    attempt: int = 0
    """The latest attempt; after the reply, the attempt that produced it."""
    answered: bool = False
    """Whether that attempt gave an answer, even one after which the turn makes another call."""
    abandoned_attempt: int = 0
    """The latest attempt that gave no answer and was followed by another."""
    partial_text: str = ""
    """The text of that attempt when it ended without an answer."""
    end_event: TurnEndEvent | None = None
    end_sequence: int = 0
    """The sequence of the end event."""


@dataclass(frozen=True, slots=True)
class TurnStreamEvent:
    """One event for the client, with the client's cursor after it."""

    name: str
    data: dict[str, JsonValue]
    cursor: TurnCursor


StreamStep = tuple[TurnCursor, tuple[TurnStreamEvent, ...]]
"""The new cursor and the events that lead to it."""


def apply_log_events(record: TurnStreamRecord, events: Iterable[RecordedEvent]) -> TurnStreamRecord:
    """Return the record after the given events; events of other turns change nothing."""
    for event in events:
        if getattr(event.event, "turn", None) == record.turn:
            record = _evolve_record(record, event)
    return record


def _evolve_record(record: TurnStreamRecord, event: RecordedEvent) -> TurnStreamRecord:
    match event.event:
        case AttemptStarted(attempt=attempt):
            given_up = record.abandoned_attempt if record.answered else record.attempt
            return TurnStreamRecord(record.turn, attempt, abandoned_attempt=given_up)
        case AttemptEnded(attempt=attempt, outcome=outcome) as ended if attempt == record.attempt:
            answered = outcome == "answered"
            return replace(record, answered=answered, partial_text=_read_content(ended.partial))
        case TurnCompleted(fallback=ReplyFallback()) as ending:
            # The text that the model generated before the fallback is void, as if another attempt
            # had begun
            said = bool(record.partial_text)
            given_up = record.attempt if said else record.abandoned_attempt
            return replace(
                record,
                attempt=record.attempt + said,
                abandoned_attempt=given_up,
                end_event=ending,
                end_sequence=event.sequence,
            )
        case _ if end := find_turn_end(event.event):
            return replace(record, end_event=end, end_sequence=event.sequence)
        case _:
            return record


def _read_content(content: Content | None) -> str:
    return content.text if isinstance(content, PlainText) else ""


def resume_cursor(at: TurnCursor, record: TurnStreamRecord) -> TurnCursor | None:
    """Return the cursor from which a reconnecting client goes on; None when it has had the end.

    Raises `Refused` for a cursor that is ahead of the record or contradicts it. A reply that was
    sent and redacted later ends again with `redact`.
    """
    end = _get_end(record)
    if at.attempt > record.attempt:
        raise create_cursor_refusal(f"turn {at.turn} has had no attempt {at.attempt}")
    if at.end and at.end != end and (at.end, end) != ("done", "redact"):
        raise create_cursor_refusal(f"the stream of turn {at.turn} has not ended with {at.end}")
    match record.end_event:
        case TurnCompleted(text=PlainText(text=text)) if at.attempt == record.attempt:
            if at.offset > len(text):
                raise create_cursor_refusal(
                    f"the reply of turn {at.turn} has {len(text)} code points"
                )
        case _:
            pass
    return None if at.end and at.end == end else replace(at, end=None)


def is_ahead_of_tokens(at: TurnCursor, events: Iterable[TokenEvent]) -> bool:
    """Return whether a cursor is beyond every token event of its attempt."""
    ends = [
        event.offset + len(event.text)
        for event in events
        if isinstance(event, Token) and event.attempt == at.attempt
    ]
    return bool(ends) and at.offset > max(ends)


def _get_end(record: TurnStreamRecord) -> StreamEnd | None:
    match record.end_event:
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


def apply_token_event(at: TurnCursor, event: TokenEvent) -> StreamStep:
    """Apply an event of the token stream.

    Text that was already sent is skipped. Text after a gap is skipped too: the log fills the gap
    later, or a repeated token event does.
    """
    if at.end or event.attempt < at.attempt:
        return at, ()
    at, reset = _advance_to_attempt(at, event.attempt, void=isinstance(event, AttemptReset))
    match event:
        case AttemptAlive(doing=doing) if doing and not at.offset:
            return at, (*reset, _create_progress_event(at, event))
        case Token(offset=offset, text=text) if offset <= at.offset:
            at, said = _emit_text(at, text[at.offset - offset :])
            return at, (*reset, *said)
        case _:
            return at, reset


def _create_progress_event(at: TurnCursor, alive: AttemptAlive) -> TurnStreamEvent:
    """Return a progress event; it carries no text, so the cursor does not change."""
    data: dict[str, JsonValue] = {"call": alive.call, "doing": alive.doing}
    return TurnStreamEvent("progress", data | ({"tool": alive.tool} if alive.tool else {}), at)


def apply_record(at: TurnCursor, record: TurnStreamRecord) -> StreamStep:
    """Apply the log's record: move to a new attempt, or send missing text and the end."""
    if at.end:
        return at, ()
    match record.end_event:
        case None:
            return _advance_to_latest_attempt(at, record)
        case ReplyRedacted(reason=reason, replacement=replacement):
            return _emit_end(
                at, "redact", {"reason": reason, "replacement": _read_content(replacement)}
            )
        case TurnFailed(code=code, retryable=retryable):
            data: dict[str, JsonValue] = {"code": code, "retryable": retryable}
            data["partial"] = record.partial_text[:MAX_TOKEN_TEXT]
            return _append_end(_emit_missing_partial(at, record), "failed", data)
        case TurnCancelled(reason=reason):
            return _append_end(
                _advance_to_latest_attempt(at, record), "cancelled", {"reason": reason}
            )
        case TurnCompleted() as reply:
            return _append_end(
                _emit_missing_reply(at, record, _read_content(reply.text)),
                "done",
                _build_done_data(reply, record),
            )
        case _ as never:
            assert_never(never)


def _build_done_data(reply: TurnCompleted, record: TurnStreamRecord) -> dict[str, JsonValue]:
    """Return the data of the `done` event, in the format of the turn's phase if it has one."""
    exchange = reply.exchange
    if exchange is None:
        data: dict[str, JsonValue] = {"finish": reply.finish, "turn": reply.turn}
        instead: dict[str, JsonValue] = {"fallback": reply.fallback.code} if reply.fallback else {}
        return {**data, **instead, "sequence": record.end_sequence}
    if exchange.kind == "debrief":
        return {"debrief_complete": True}
    return {
        "phase_transition": exchange.signal,
        "next_phase": exchange.next,
        "exchanges_count": exchange.count,
    }


def _advance_to_latest_attempt(at: TurnCursor, record: TurnStreamRecord) -> StreamStep:
    return _advance_to_attempt(
        at, record.attempt, void=record.abandoned_attempt >= max(1, at.attempt)
    )


def _advance_to_attempt(at: TurnCursor, attempt: int, *, void: bool) -> StreamStep:
    """Move the cursor to an attempt; send a reset when an attempt was abandoned or text was sent.

    The attempts of intermediate calls send no text, so moving past them sends nothing.
    """
    if attempt <= at.attempt:
        return at, ()
    before, at = at, TurnCursor(at.turn, attempt)
    return (at, (_create_reset_event(at),)) if void or before.offset else (at, ())


def _create_reset_event(at: TurnCursor) -> TurnStreamEvent:
    return TurnStreamEvent("attempt-reset", {"attempt": at.attempt}, at)


def _emit_text(at: TurnCursor, text: str) -> StreamStep:
    """Send a text in limited pieces, so that a client that often reconnects makes progress."""
    shown = list[TurnStreamEvent]()
    for start in range(0, len(text), MAX_TOKEN_TEXT):
        piece = text[start : start + MAX_TOKEN_TEXT]
        at = replace(at, offset=at.offset + len(piece))
        shown.append(TurnStreamEvent("token", {"text": piece}, at))
    return at, tuple(shown)


def _emit_missing_reply(at: TurnCursor, record: TurnStreamRecord, text: str) -> StreamStep:
    """Send the missing part of the reply; restart when more text was sent than the reply has."""
    at, reset = _advance_to_latest_attempt(at, record)
    if at.offset > len(text):
        at = TurnCursor(at.turn, at.attempt)
        reset = (_create_reset_event(at),)
    at, said = _emit_text(at, text[at.offset :])
    return at, (*reset, *said)


def _emit_missing_partial(at: TurnCursor, record: TurnStreamRecord) -> StreamStep:
    """Send the missing part of an answer that was never completed."""
    at, reset = _advance_to_latest_attempt(at, record)
    missing = record.partial_text[at.offset :] if at.attempt == record.attempt else ""
    at, said = _emit_text(at, missing)
    return at, (*reset, *said)


def _append_end(step: StreamStep, end: StreamEnd, data: dict[str, JsonValue]) -> StreamStep:
    at, before = step
    at, last = _emit_end(at, end, data)
    return at, (*before, *last)


def _emit_end(at: TurnCursor, end: StreamEnd, data: dict[str, JsonValue]) -> StreamStep:
    at = replace(at, end=end)
    return at, (TurnStreamEvent(end, data, at),)
