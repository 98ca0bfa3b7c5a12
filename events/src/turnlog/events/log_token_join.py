"""The pure join of log events and token events: which part of a reply a reader receives next.

Token events carry the text while it is generated, log events carry the recorded text. The two
arrive in no mutual order, and token events may be lost, repeated or of an abandoned attempt. A
reader keeps a position in the reply, and a record of what the log says about the turn.

Invariant: the texts received since the last `AttemptReset` are a prefix of the current attempt's
text. Where a reader takes the missing text from the record, they equal the recorded reply at the
end, also the recorded part of a reply that broke off: the log decides, and texts that are not the
beginning of what it recorded are reset. The position is all that a reader has to store in order to
resume without a gap or a repeat; texts from before it was resumed are compared as long as the token
events are kept.
Nothing here does I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Final, assert_never

from turnlog.events.content import Content, PlainText
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.attempt_figures import SafetyRating
from turnlog.events.model.call_events import AttemptStarted, find_attempt_end
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.turn_events import (
    ReplyFallback,
    TurnCancelled,
    TurnCompleted,
    TurnEndEvent,
    TurnFailed,
    find_turn_end,
)
from turnlog.events.tokens import (
    AttemptAlive,
    AttemptClosed,
    AttemptReset,
    ReasoningPiece,
    Token,
    TokenEvent,
)

if TYPE_CHECKING:
    from _hashlib import HASH

_CURSOR_NUMBER_REGEX: Final = re.compile("0|[1-9][0-9]{0,17}")


def parse_cursor_number(text: str) -> int | None:
    """Return a number of a cursor, or None if the text is not one as cursors spell it."""
    return int(text) if _CURSOR_NUMBER_REGEX.fullmatch(text) else None


@dataclass(frozen=True, slots=True)
class ReceivedText:
    """Digest of the text that a reader received from an offset on, to compare with the record."""

    begin: int
    digest: HASH

    def append_text(self, text: str) -> ReceivedText:
        """Return the digest of this text and another after it."""
        digest = self.digest.copy()
        digest.update(text.encode())
        return ReceivedText(self.begin, digest)

    def is_part_of(self, recorded: str, end: int) -> bool:
        """Return whether a recorded text has exactly this text up to an offset."""
        return sha256(recorded[self.begin : end].encode()).digest() == self.digest.digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyPosition:
    """A position in the reply to a turn; of turn 0 where no turn is open."""

    turn: int = 0
    attempt: int = 0
    """The highest attempt seen; 0 before the first."""
    offset: int = 0
    """How many code points of that attempt's text were received."""
    is_closed: bool = False
    """Whether the end of that attempt was received too."""
    reasoned: int | None = None
    """How many code points of its reasoning were received; None for a reader without it."""
    received: ReceivedText | None = field(default=None, compare=False, repr=False)
    """What was received of the text since the reader began or resumed."""


@dataclass(frozen=True, slots=True)
class ReplyItem:
    """A token event that continues what was received, and the position after it."""

    event: TokenEvent
    position: ReplyPosition


ReplyStep = tuple[ReplyPosition, tuple[ReplyItem, ...]]
"""The new position and the items that lead to it."""


def apply_token_event(position: ReplyPosition, event: TokenEvent) -> ReplyStep:
    """Apply an event of the token stream.

    Text that was already received is cut off. Text after a gap is dropped: the log fills the gap
    later, or a repeated token event does. Activities are passed on until the text begins.
    """
    if event.attempt < position.attempt:
        return position, ()
    position, reset = _advance_to_attempt(
        position, event.attempt, event.call, is_void=isinstance(event, AttemptReset)
    )
    match event:
        case AttemptAlive(doing=doing) if doing and not position.offset:
            return position, (*reset, ReplyItem(event, position))
        case Token(offset=offset, text=text) if offset <= position.offset < offset + len(text):
            position, token = _append_text(position, event.call, text[position.offset - offset :])
            return position, (*reset, *token)
        case ReasoningPiece() if position.reasoned is not None:
            position, piece = _append_reasoning(position, position.reasoned, event)
            return position, (*reset, *piece)
        case AttemptClosed(length=length) if length == position.offset and not position.is_closed:
            position = replace(position, is_closed=True)
            return position, (*reset, ReplyItem(event, position))
        case _:
            return position, reset


def restore_received_text(position: ReplyPosition, events: Iterable[TokenEvent]) -> ReplyPosition:
    """Return a resumed position with the digest of the text that was received before it.

    `events` are the stored token events of the turn, from which that text was taken, whoever
    published them. The position is unchanged if they do not reach it any more.
    """
    before = ReplyPosition(turn=position.turn, attempt=position.attempt)
    for event in events:
        if isinstance(event, Token) and event.attempt == position.attempt:
            known = event.text[: max(0, position.offset - event.offset)]
            before, _ = apply_token_event(before, event.model_copy(update={"text": known}))
    if before.offset != position.offset:
        return position
    return replace(position, received=before.received)


def is_ahead_of_tokens(position: ReplyPosition, events: Iterable[TokenEvent]) -> bool:
    """Return whether a position is beyond every token event of its attempt."""
    ends = [
        event.offset + len(event.text)
        for event in events
        if isinstance(event, Token) and event.attempt == position.attempt
    ]
    return bool(ends) and position.offset > max(ends)


def _advance_to_attempt(
    position: ReplyPosition, attempt: int, call: str, *, is_void: bool
) -> ReplyStep:
    """Move to an attempt; reset when an attempt was abandoned or text was received.

    The attempts of intermediate calls have no text, so moving past them changes nothing else.
    """
    if attempt <= position.attempt:
        return position, ()
    has_void_text = is_void or position.offset > 0
    position = _begin_attempt(position, attempt)
    return position, (_create_reset(position, call),) if has_void_text else ()


def _begin_attempt(position: ReplyPosition, attempt: int) -> ReplyPosition:
    reasoned = None if position.reasoned is None else 0
    return ReplyPosition(turn=position.turn, attempt=attempt, reasoned=reasoned)


def _append_reasoning(
    position: ReplyPosition, received: int, event: ReasoningPiece
) -> tuple[ReplyPosition, tuple[ReplyItem, ...]]:
    """Pass on what is new of a piece. Nothing fills a gap: reasoning is no part of the reply."""
    begin = max(received, event.offset)
    if not (text := event.text[begin - event.offset :]):
        return position, ()
    position = replace(position, reasoned=begin + len(text))
    piece = event.model_copy(update={"offset": begin, "text": text})
    return position, (ReplyItem(piece, position),)


def _create_reset(position: ReplyPosition, call: str) -> ReplyItem:
    return ReplyItem(AttemptReset(call=call, attempt=position.attempt), position)


def _append_text(position: ReplyPosition, call: str, text: str) -> ReplyStep:
    if not text:
        return position, ()
    token = Token(call=call, attempt=position.attempt, offset=position.offset, text=text)
    received = position.received or ReceivedText(position.offset, sha256())
    position = replace(
        position, offset=position.offset + len(text), received=received.append_text(text)
    )
    return position, (ReplyItem(token, position),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyRecord:
    """What the log has recorded of a turn's reply so far."""

    turn: int
    attempt: int = 0
    """The latest attempt; after the reply, the attempt that produced it."""
    call: str = ""
    """The call of that attempt."""
    is_answered: bool = False
    """Whether that attempt gave an answer, even one after which the turn makes another call."""
    abandoned_attempt: int = 0
    """The latest attempt that gave no answer and was followed by another."""
    partial_text: str = ""
    """The text of that attempt when it ended without an answer."""
    ratings: tuple[SafetyRating, ...] = ()
    """The provider's ratings of the latest attempt's answer; of a fallback there are none."""
    end_event: TurnEndEvent | None = None
    end_sequence: int = 0
    """The sequence of the end event."""


def create_resumed_record(position: ReplyPosition) -> ReplyRecord:
    """Return the record for a reader that does not read the log before its position again.

    It counts no attempt before the position as abandoned: the reader has received those resets.
    """
    return ReplyRecord(turn=position.turn, attempt=position.attempt, is_answered=True)


def apply_log_events(record: ReplyRecord, events: Iterable[RecordedEvent]) -> ReplyRecord:
    """Return the record after the given events; events of other turns change nothing."""
    for event in events:
        if getattr(event.event, "turn", None) == record.turn:
            record = _evolve_record(record, event)
    return record


def _evolve_record(record: ReplyRecord, event: RecordedEvent) -> ReplyRecord:
    ended = find_attempt_end(event.event)
    if ended is not None and ended.attempt == record.attempt:
        partial = read_plain_text(ended.partial)
        record = replace(
            record,
            is_answered=ended.outcome == "answered",
            partial_text=partial,
            ratings=ended.ratings,
        )
    match event.event:
        case AttemptStarted(attempt=attempt, call=call):
            abandoned = record.abandoned_attempt if record.is_answered else record.attempt
            return ReplyRecord(
                turn=record.turn, attempt=attempt, call=call, abandoned_attempt=abandoned
            )
        case TurnCompleted(fallback=ReplyFallback()) as ending:
            # The text that the model generated before the fallback is void, as if another attempt
            # had begun
            has_text = bool(record.partial_text)
            return replace(
                record,
                attempt=record.attempt + has_text,
                abandoned_attempt=record.attempt if has_text else record.abandoned_attempt,
                ratings=(),
                end_event=ending,
                end_sequence=event.sequence,
            )
        case _ if end := find_turn_end(event.event):
            return replace(record, end_event=end, end_sequence=event.sequence)
        case _:
            return record


def read_plain_text(content: Content | None) -> str:
    """Return the text of a content; empty if it was removed or there is none."""
    return content.text if isinstance(content, PlainText) else ""


def advance_to_recorded_attempt(position: ReplyPosition, record: ReplyRecord) -> ReplyStep:
    """Move to the latest attempt on record."""
    is_void = record.abandoned_attempt >= max(1, position.attempt)
    return _advance_to_attempt(position, record.attempt, record.call, is_void=is_void)


def apply_record(position: ReplyPosition, record: ReplyRecord) -> ReplyStep:
    """Apply the log's record: move to a new attempt, and at the turn's end append missing text.

    After a redaction nothing is appended.
    """
    match record.end_event:
        case None | TurnCancelled():
            return advance_to_recorded_attempt(position, record)
        case TurnCompleted(text=text):
            return _append_missing_reply(position, record, read_plain_text(text))
        case TurnFailed():
            return _append_missing_partial(position, record)
        case ReplyRedacted():
            return position, ()
        case _ as never:
            assert_never(never)


def _append_missing_reply(position: ReplyPosition, record: ReplyRecord, text: str) -> ReplyStep:
    """Append the missing part of the reply; restart when what was received is not its beginning."""
    position, reset = advance_to_recorded_attempt(position, record)
    if position.offset > len(text) or not _is_recorded(position, record, text):
        position, reset = _restart_attempt(position, record)
    position, token = _append_text(position, record.call, text[position.offset :])
    return position, (*reset, *token)


def _append_missing_partial(position: ReplyPosition, record: ReplyRecord) -> ReplyStep:
    """Append the missing part of an answer that was never completed."""
    position, reset = advance_to_recorded_attempt(position, record)
    text = record.partial_text
    # More may have been received than was recorded of an answer that broke off, or than there was.
    if position.offset > len(text) or not _is_recorded(position, record, text):
        position, reset = _restart_attempt(position, record)
    missing = text[position.offset :] if position.attempt == record.attempt else ""
    position, token = _append_text(position, record.call, missing)
    return position, (*reset, *token)


def _is_recorded(position: ReplyPosition, record: ReplyRecord, text: str) -> bool:
    """Return whether the received text is of the recorded attempt, and the beginning of its text.

    Token events are not part of the record: they may be of an attempt that there never was.
    """
    if record.attempt and position.attempt > record.attempt:
        return False
    return position.received is None or position.received.is_part_of(text, position.offset)


def _restart_attempt(position: ReplyPosition, record: ReplyRecord) -> ReplyStep:
    position = _begin_attempt(position, record.attempt or position.attempt)
    return position, (_create_reset(position, record.call),)
