"""A consumer follows the join of log and tokens, whichever of the two arrives first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

import pytest

from turnlog.events.async_tasks import Watch
from turnlog.events.codec import encode_batch
from turnlog.events.content import PlainText, compute_digest
from turnlog.events.jetstream.event_consumer import build_cursor_codec
from turnlog.events.log_token_join import ReplyPosition, apply_token_event
from turnlog.events.model.attempt_figures import AttemptCost, TokenUsage
from turnlog.events.model.call_events import AttemptEnded, AttemptStarted
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.turn_events import (
    ReplyFallback,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnSubmitted,
)
from turnlog.events.registry import KnownEvent
from turnlog.events.session_stream import SessionItem, SessionPosition, stream_session
from turnlog.events.store.memory_log import MemoryLog, MemoryTokenStream
from turnlog.events.store.ports import TurnTokenEvent
from turnlog.events.testing import make_drafts
from turnlog.events.tokens import AttemptClosed, AttemptReset, ReasoningPiece, Token, TokenEvent

UNKNOWN = TokenUsage(known="unknown")

SUBMITTED = TurnSubmitted(turn=1, text=PlainText(text="say something"))

STARTED = AttemptStarted(turn=1, call="1.1", attempt=1, worker="w")

ENDED = AttemptEnded(
    turn=1,
    call="1.1",
    attempt=1,
    outcome="failed",
    usage=UNKNOWN,
    cost=AttemptCost(price="unknown", table="none"),
    partial=PlainText(text="half a reply"),
)

HALF = Token(call="1.1", attempt=1, offset=0, text="half")

REST = Token(call="1.1", attempt=1, offset=4, text=" a reply")

COMPLETED = TurnCompleted(turn=1, call="1.1", text=PlainText(text="half a reply"), finish="stop")

FALLBACK = TurnCompleted(
    turn=1,
    text=PlainText(text="sorry"),
    finish="stop",
    fallback=ReplyFallback(code="model-off", detail="off"),
)


FAILED = TurnFailed(turn=1, code="x", detail="", retryable=True)

WITHHELD = ReplyRedacted(
    turn=1, reason="a name", rule="operator", replacement=PlainText(text="(withheld)")
)


@dataclass
class SilentTokenStream(MemoryTokenStream):
    """Token events that are stored but never arrive live."""

    @asynccontextmanager
    async def open_turn_watch(
        self, tenant: str, session: str, turn: int, wake: asyncio.Event, *, is_new: bool = False
    ) -> AsyncGenerator[Watch[TokenEvent]]:
        async with super().open_turn_watch(
            tenant, session, turn + 1, wake, is_new=is_new
        ) as silent:
            yield silent


async def build_log(*events: KnownEvent) -> MemoryLog:
    log = MemoryLog()
    await log.append_batch(encode_batch("t", "s", None, make_drafts(events, 1)))
    return log


async def publish_all(tokens: MemoryTokenStream, *events: TokenEvent) -> MemoryTokenStream:
    for event in events:
        await tokens.publish_token("t", "s", 1, event)
    return tokens


def describe_item(item: SessionItem) -> str:
    match item[1]:
        case TurnTokenEvent(event=Token(text=text)):
            return text
        case TurnTokenEvent(event=event):
            return event.kind
        case event:
            return event.envelope.type.split(".")[1]


async def take_described(
    log: MemoryLog, tokens: MemoryTokenStream, count: int, start: SessionPosition
) -> list[str]:
    async with aclosing(
        stream_session(log=log, tokens=tokens, tenant="t", session="s", position=start, upto=1)
    ) as items:
        return [describe_item(await anext(items)) for _ in range(count)]


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (COMPLETED, ["half", " a reply", "turn-completed"]),
        (
            TurnFailed(turn=1, code="x", detail="", retryable=True),
            ["half", " a reply", "turn-failed"],
        ),
        (TurnCancelled(turn=1, reason="cancelled"), ["turn-cancelled"]),
        (WITHHELD, ["reply-redacted"]),
    ],
    ids=["completed", "failed", "cancelled", "withheld"],
)
async def test_stored_tokens_precede_the_end_of_a_turn_only_if_it_has_a_text(
    end: KnownEvent, expected: list[str]
) -> None:
    log = await build_log(SUBMITTED, end)
    tokens = await publish_all(SilentTokenStream(), HALF, REST)
    start = SessionPosition(1, ReplyPosition(turn=1))
    assert await take_described(log, tokens, len(expected), start) == expected


async def test_fallback_discards_the_text_received_before_it() -> None:
    log = await build_log(SUBMITTED, STARTED, ENDED, FALLBACK)
    tokens = await publish_all(SilentTokenStream(), HALF, REST)
    start = SessionPosition(1, ReplyPosition(turn=1, attempt=1, offset=4))
    assert await take_described(log, tokens, 4, start) == [
        "attempt-started", "attempt-ended", "attempt-reset", "turn-completed"
    ]  # fmt: skip


async def test_consumer_that_leaves_at_any_item_receives_every_item_once() -> None:
    log = await build_log(SUBMITTED)
    again = Token(call="1.1", attempt=2, offset=0, text="whole")
    closed = AttemptClosed(
        call="1.1",
        attempt=2,
        length=5,
        digest=compute_digest("whole"),
        finish="stop",
        usage=UNKNOWN,
        total=1,
    )
    tokens = await publish_all(MemoryTokenStream(), HALF, again, closed)
    cursors = build_cursor_codec(await log.get_identity("t"), "t", "s")
    cursor = cursors.format_cursor(SessionPosition(1, ReplyPosition(turn=1)))
    received: list[str] = []
    while len(received) < 4:
        start = cursors.parse_session_cursor(cursor)
        async with aclosing(
            stream_session(log=log, tokens=tokens, tenant="t", session="s", position=start, upto=1)
        ) as items:
            item = await anext(items)
        received.append(describe_item(item))
        cursor = cursors.format_cursor(item[0])
    assert received == ["half", "attempt-reset", "whole", "attempt-closed"]
    assert cursor.split(".")[1:] == ["1", "1", "2", "6"]


def test_end_of_an_attempt_is_passed_on_once_and_only_after_all_of_its_text() -> None:
    closed = AttemptClosed(
        call="1.1",
        attempt=1,
        length=4,
        digest=compute_digest("half"),
        finish="stop",
        usage=UNKNOWN,
        total=1,
    )
    position, items = apply_token_event(ReplyPosition(turn=1, attempt=1), closed)
    assert items == ()
    position, items = apply_token_event(position, HALF)
    assert [item.event for item in items] == [HALF]
    position, items = apply_token_event(position, closed)
    assert [item.event for item in items] == [closed]
    assert apply_token_event(position, closed) == (position, ())


THOUGHT = ReasoningPiece(call="1.1", attempt=1, offset=0, text="I look.")


def test_reasoning_is_passed_on_to_readers_that_ask_for_it_alone() -> None:
    position = ReplyPosition(turn=1, attempt=1)
    assert apply_token_event(position, THOUGHT) == (position, ())
    asking = ReplyPosition(turn=1, attempt=1, reasoned=0)
    position, items = apply_token_event(asking, THOUGHT)
    assert [item.event for item in items] == [THOUGHT]
    assert (position.reasoned, position.offset) == (7, 0)
    assert apply_token_event(position, THOUGHT) == (position, ())


def test_reasoning_that_was_received_in_part_goes_on_and_nothing_waits_for_a_gap() -> None:
    position, items = apply_token_event(ReplyPosition(turn=1, attempt=1, reasoned=2), THOUGHT)
    assert [item.event for item in items] == [
        ReasoningPiece(call="1.1", attempt=1, offset=2, text="look.")
    ]
    later = ReasoningPiece(call="1.1", attempt=1, offset=20, text="So.")
    position, items = apply_token_event(position, later)
    assert [item.event for item in items] == [later]
    assert position.reasoned == 23


def test_next_attempt_begins_its_reasoning_anew() -> None:
    again = ReasoningPiece(call="1.1", attempt=2, offset=0, text="Hm.")
    position, items = apply_token_event(ReplyPosition(turn=1, attempt=1, reasoned=7), again)
    assert [item.event for item in items] == [again], "nothing of the reply is void"
    assert position == ReplyPosition(turn=1, attempt=2, reasoned=3)


def test_later_attempt_with_a_gap_still_ends_the_previous_one() -> None:
    gap = Token(call="1.1", attempt=2, offset=3, text="le")
    position, items = apply_token_event(ReplyPosition(turn=1, attempt=1, offset=4), gap)
    assert [item.event for item in items] == [AttemptReset(call="1.1", attempt=2)]
    assert apply_token_event(position, REST) == (position, ())
