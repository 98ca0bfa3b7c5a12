"""The events that a client of a turn stream is sent: their data and their cursors.

`log_token_join` decides which part of the reply comes next. This module gives it the form of a
stream event, checks the cursor of a client that reconnects, and adds the event that ends the
stream. `stream_payloads` defines the form of the data, from which its published schema is made.

A cursor says how much of a stream a client has received: `3.1.120` is turn 3, attempt 1, after 120
code points of its text; `3.1.120.done` means that the end was sent too. In a stream with the
model's reasoning `3.1.120.r57` is also after 57 code points of that. The cursor is the id of every
event, and all the state there is: no process keeps a record of its clients.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, Literal, assert_never, cast

from turnlog.contract.stream_payloads import (
    ApprovalPayload,
    AttemptResetPayload,
    ChildPayload,
    DebriefDonePayload,
    ExchangeDonePayload,
    PartPayload,
    ProgressPayload,
    ReasoningPayload,
    ReplyCancelledPayload,
    ReplyDonePayload,
    ReplyFailedPayload,
    ReplyRedactedPayload,
    SafetyRatingPayload,
    TokenPayload,
    TurnEndPayload,
    TurnStreamPayload,
)
from turnlog.events.content import PlainText, compute_digest, parse_structured_text
from turnlog.events.errors import Refused
from turnlog.events.log_token_join import (
    ReceivedText,
    ReplyItem,
    ReplyPosition,
    ReplyRecord,
    apply_record,
    apply_token_event,
    read_plain_text,
)
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.turn_events import TurnCancelled, TurnCompleted, TurnEndEvent, TurnFailed
from turnlog.events.tokens import (
    AttemptAbandoned,
    AttemptAlive,
    AttemptClosed,
    AttemptReset,
    ReasoningPiece,
    Token,
    TokenEvent,
)
from turnlog.services.approvals.guarded_tools import GuardedTool
from turnlog.services.use_cases.turns.child_progress import ChildProgress

MAX_TOKEN_TEXT: Final = 512
"""The maximum number of code points in one `token` event, which bounds what a lost connection
costs.
"""


StreamEnd = Literal["done", "redact", "failed", "cancelled"]
"""How a stream ends; also the names of its last event."""

_NUMBER_PATTERN: Final = "(0|[1-9][0-9]{0,8})"

_END_PATTERN: Final = "(done|redact|failed|cancelled)"

_CURSOR_PATTERN: Final = re.compile(
    rf"{_NUMBER_PATTERN}\.{_NUMBER_PATTERN}\.{_NUMBER_PATTERN}"
    rf"(?:\.r{_NUMBER_PATTERN})?(?:\.{_END_PATTERN})?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCursor:
    """A position in a turn stream."""

    turn: int
    attempt: int = 0
    """The attempt whose text was sent; 0 before the first."""
    offset: int = 0
    """How many code points of that text were sent."""
    reasoned: int | None = None
    """How many code points of its reasoning were sent; None in a stream without it."""
    end: StreamEnd | None = None
    """The end that was sent."""
    received: ReceivedText | None = field(default=None, compare=False, repr=False)
    """What was sent as far as it is known, to compare with the record; not part of the string."""

    @property
    def position(self) -> ReplyPosition:
        """The position in the turn's reply."""
        return ReplyPosition(
            turn=self.turn,
            attempt=self.attempt,
            offset=self.offset,
            reasoned=self.reasoned,
            received=self.received,
        )

    def __str__(self) -> str:
        place = f"{self.turn}.{self.attempt}.{self.offset}"
        place += f".r{self.reasoned}" if self.reasoned else ""
        return f"{place}.{self.end}" if self.end else place


def create_turn_cursor(position: ReplyPosition) -> TurnCursor:
    """Return the cursor at a position, which omits that an attempt was closed."""
    return TurnCursor(
        turn=position.turn,
        attempt=position.attempt,
        offset=position.offset,
        reasoned=position.reasoned,
        received=position.received,
    )


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
    return TurnCursor(
        turn=turn,
        attempt=attempt,
        offset=offset,
        reasoned=int(found[4]) if found[4] else None,
        end=cast("StreamEnd | None", found[5]),
    )


def create_cursor_refusal(detail: str) -> Refused:
    """Return the error for an invalid cursor."""
    return Refused(
        "bad-cursor",
        detail,
        field="Last-Event-ID",
        fix="send the id of the last event you received, or none to start from the beginning",
    )


@dataclass(frozen=True, slots=True)
class TurnStreamEvent:
    """One event for the client, with the client's cursor after it."""

    payload: TurnStreamPayload
    cursor: TurnCursor

    @property
    def name(self) -> str:
        """The name of the server-sent event."""
        return self.payload.event


StreamStep = tuple[TurnCursor, tuple[TurnStreamEvent, ...]]
"""The new cursor and the events that lead to it."""


def resume_cursor(at: TurnCursor, record: ReplyRecord) -> TurnCursor | None:
    """Return the cursor at which a reconnecting client resumes; None if it has received the end.

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


def _get_end(record: ReplyRecord) -> StreamEnd | None:
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


def advance_by_token(at: TurnCursor, event: TokenEvent) -> StreamStep:
    """Apply an event of the token stream."""
    if at.end:
        return at, ()
    position, items = apply_token_event(at.position, event)
    return create_turn_cursor(position), _build_events(items)


def advance_by_record(at: TurnCursor, record: ReplyRecord) -> StreamStep:
    """Apply the log's record: send what was missed, and the end when the turn has ended."""
    if at.end:
        return at, ()
    position, items = apply_record(at.position, record)
    at, events = create_turn_cursor(position), _build_events(items)
    if record.end_event is None:
        return at, events
    parts = tuple(TurnStreamEvent(each, at) for each in _build_part_payloads(record.end_event))
    payload = _build_end_payload(record.end_event, record)
    at = replace(at, end=payload.event)
    return at, (*events, *parts, TurnStreamEvent(payload, at))


def _build_part_payloads(end: TurnEndEvent) -> Iterator[PartPayload]:
    if not isinstance(end, TurnCompleted):
        return
    for part in end.parts:
        yield PartPayload.model_validate(part.model_dump(), extra="ignore")


def build_approval_event(at: TurnCursor, tool: GuardedTool) -> TurnStreamEvent:
    """Return the event about a tool that needs approval; it leaves the cursor where it is."""
    use, approval = tool.use, tool.use.approval
    if approval is None:
        raise AssertionError("it needs approval")
    payload = ApprovalPayload(
        session=tool.session,
        turn=tool.turn,
        approval=approval.approval,
        call=use.call,
        id=use.id,
        tool=use.tool,
        arguments=use.arguments,
        digest=compute_digest(use.arguments),
        deadline=approval.deadline,
        decision=approval.decision,
    )
    return TurnStreamEvent(payload, at)


def build_child_event(at: TurnCursor, child: ChildProgress) -> TurnStreamEvent:
    """Return the event about what a child does; it leaves the cursor where it is."""
    payload = ChildPayload(
        session=child.session,
        turn=child.turn,
        parent=child.parent,
        profile=child.profile,
        call=child.call,
        doing=child.doing,
        tool=child.tool,
        characters=child.characters if child.doing == "text" else None,
        outcome=child.outcome,
    )
    return TurnStreamEvent(payload, at)


def _build_events(items: Iterable[ReplyItem]) -> tuple[TurnStreamEvent, ...]:
    return tuple(event for item in items for event in _build_item_events(item))


def _build_item_events(item: ReplyItem) -> Iterator[TurnStreamEvent]:
    at = create_turn_cursor(item.position)
    match item.event:
        case Token(offset=offset, text=text):
            yield from _split_text(item.position, offset, text)
        case AttemptReset(attempt=attempt):
            yield TurnStreamEvent(AttemptResetPayload(attempt=attempt), at)
        case AttemptAlive(call=call, doing=doing, tool=tool) if doing is not None:
            yield TurnStreamEvent(ProgressPayload(call=call, doing=doing, tool=tool), at)
        case ReasoningPiece(call=call, attempt=attempt, offset=offset, text=text):
            payload = ReasoningPayload(call=call, attempt=attempt, offset=offset, text=text)
            yield TurnStreamEvent(payload, at)
        case AttemptAlive() | AttemptAbandoned() | AttemptClosed():
            pass
        case _ as never:
            assert_never(never)


def _split_text(position: ReplyPosition, offset: int, text: str) -> Iterator[TurnStreamEvent]:
    """Send a text in limited pieces, so that a client that often reconnects makes progress."""
    for start in range(0, len(text), MAX_TOKEN_TEXT):
        piece = text[start : start + MAX_TOKEN_TEXT]
        at = TurnCursor(
            turn=position.turn,
            attempt=position.attempt,
            offset=offset + start + len(piece),
            reasoned=position.reasoned,
        )
        yield TurnStreamEvent(TokenPayload(text=piece), at)


def _build_end_payload(end: TurnEndEvent, record: ReplyRecord) -> TurnEndPayload:
    match end:
        case TurnCompleted():
            return _build_done_payload(end, record)
        case TurnFailed(code=code, retryable=retryable):
            partial = record.partial_text[:MAX_TOKEN_TEXT]
            return ReplyFailedPayload(code=code, retryable=retryable, partial=partial)
        case TurnCancelled(reason=reason):
            return ReplyCancelledPayload(reason=reason)
        case ReplyRedacted(reason=reason, replacement=replacement):
            return ReplyRedactedPayload(reason=reason, replacement=read_plain_text(replacement))
        case _ as never:
            assert_never(never)


def _build_done_payload(
    reply: TurnCompleted, record: ReplyRecord
) -> ReplyDonePayload | ExchangeDonePayload | DebriefDonePayload:
    """Return the data of the `done` event, in the format of the turn's phase if it has one."""
    output = parse_structured_text(reply.text) if reply.structured else None
    ratings = tuple(
        SafetyRatingPayload.model_validate(each.model_dump()) for each in record.ratings
    )
    exchange = reply.exchange
    if exchange is None:
        return ReplyDonePayload(
            finish=reply.finish,
            ratings=ratings,
            turn=reply.turn,
            fallback=reply.fallback.code if reply.fallback else None,
            output=output,
            sequence=record.end_sequence,
        )
    if exchange.kind == "debrief":
        return DebriefDonePayload(
            debrief_complete=True, finish=reply.finish, ratings=ratings, output=output
        )
    return ExchangeDonePayload(
        phase_transition=exchange.signal,
        next_phase=exchange.next,
        exchanges_count=exchange.count,
        finish=reply.finish,
        ratings=ratings,
        output=output,
    )
