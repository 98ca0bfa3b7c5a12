"""The join of the token stream and the log, over any interleaving."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import JsonValue

from turnlog.events.codec import EventDraft, decode_event, encode_batch
from turnlog.events.content import PlainText, compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.log_token_join import ReplyRecord, apply_log_events, is_ahead_of_tokens
from turnlog.events.model.attempt_figures import AttemptCost, TokenUsage
from turnlog.events.model.call_events import AttemptEnded, AttemptStarted
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.turn_events import TurnCancelled, TurnCompleted, TurnFailed, TurnSubmitted
from turnlog.events.registry import KnownEvent
from turnlog.events.tokens import AttemptAlive, AttemptClosed, AttemptReset, Token, TokenEvent
from turnlog.services.use_cases.turns.turn_stream_events import (
    MAX_TOKEN_TEXT,
    TurnCursor,
    TurnStreamEvent,
    advance_by_record,
    advance_by_token,
    parse_turn_cursor,
    resume_cursor,
)

UNKNOWN = TokenUsage(known="unknown")

TURN = 3


def record_events(events: Sequence[KnownEvent]) -> list[RecordedEvent]:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    drafts = [
        EventDraft(event=event, id=f"id-{n}", at=at, source="/test", actor="tester")
        for n, event in enumerate(events)
    ]
    batch = encode_batch("t", "s", None, drafts)
    return [decode_event(message.payload, message.sequence) for message in batch.messages]


def parse_data(event: TurnStreamEvent) -> dict[str, JsonValue]:
    """Return the data of an event as a client reads it."""
    data: dict[str, JsonValue] = json.loads(event.payload.model_dump_json())
    return data


def build_started(attempt: int) -> AttemptStarted:
    return AttemptStarted(turn=TURN, call="3.1", attempt=attempt, worker="w")


def build_lost(attempt: int, partial: str = "") -> AttemptEnded:
    return AttemptEnded(
        turn=TURN,
        call="3.1",
        attempt=attempt,
        outcome="lost",
        usage=UNKNOWN,
        cost=AttemptCost(price="unknown", table="none"),
        partial=PlainText(text=partial) if partial else None,
    )


def build_completed(text: str) -> TurnCompleted:
    return TurnCompleted(turn=TURN, call="3.1", text=PlainText(text=text), finish="stop")


def build_redacted() -> ReplyRedacted:
    return ReplyRedacted(
        turn=TURN,
        reason="it names a person",
        rule="operator",
        replacement=PlainText(text="(withheld)"),
    )


def build_token_events(attempt: int, pieces: Sequence[str]) -> list[TokenEvent]:
    """Return all token events of an attempt that completes."""
    sign = AttemptAlive if attempt == 1 else AttemptReset
    events: list[TokenEvent] = [
        sign(call="3.1", attempt=attempt),
        AttemptAlive(call="3.1", attempt=attempt, doing="tool", tool="shop_look"),
    ]
    offset = 0
    for piece in pieces:
        events.append(Token(call="3.1", attempt=attempt, offset=offset, text=piece))
        offset += len(piece)
    text = "".join(pieces)
    closed = AttemptClosed(
        call="3.1",
        attempt=attempt,
        length=len(text),
        digest=compute_digest(text),
        finish="stop",
        usage=UNKNOWN,
        total=1,
    )
    return [*events, closed]


@dataclass
class JoinClient:
    """A client that applies events as the documentation says."""

    text: str = ""
    last_id: str | None = None
    attempt: int = 0
    ends: list[TurnStreamEvent] = field(default_factory=list[TurnStreamEvent])

    def apply_event(self, event: TurnStreamEvent) -> None:
        assert self.last_id is None or not self.ends or self.ends[-1].name == "done"
        self.last_id = str(event.cursor)
        self.attempt = event.cursor.attempt
        match event.name:
            case "token":
                self.text += str(parse_data(event)["text"])
            case "attempt-reset":
                self.text = ""
            case "progress":
                assert self.text == ""
            case _:
                self.ends.append(event)


pieces = st.lists(st.text(min_size=1, max_size=5), max_size=5)


@dataclass(frozen=True)
class PublishedTurn:
    """A turn with its events on the log and all its token events."""

    log: list[RecordedEvent]
    texts: list[str]
    tokens: list[TokenEvent]

    @property
    def find_last_event(self) -> RecordedEvent:
        return self.log[-1]

    def count_until_attempt(self, attempt: int) -> int:
        """Return the length of the log once an attempt has started."""
        for index, event in enumerate(self.log):
            if isinstance(event.event, AttemptStarted) and event.event.attempt == attempt:
                return index + 1
        return 1


@st.composite
def draw_turn(draw: st.DrawFn) -> PublishedTurn:
    attempts = draw(st.lists(pieces, min_size=1, max_size=3))
    texts = ["".join(each) for each in attempts]
    events: list[KnownEvent] = [TurnSubmitted(turn=TURN, text=PlainText(text="Hi"))]
    for number, text in enumerate(texts, 1):
        events += [build_started(number), build_lost(number, text)]
    match draw(st.sampled_from(["done", "failed", "cancelled", "withheld", "redacted"])):
        case "done":
            events[-1:] = [build_completed(texts[-1])]
        case "failed":
            events.append(TurnFailed(turn=TURN, code="x", detail="", retryable=True))
        case "cancelled":
            events.append(TurnCancelled(turn=TURN, reason="cancelled"))
        case "withheld":
            events.append(build_redacted())
        case _:
            events[-1:] = [build_completed(texts[-1]), build_redacted()]
    tokens = [event for n, each in enumerate(attempts, 1) for event in build_token_events(n, each)]
    return PublishedTurn(record_events(events), texts, tokens)


def resume_stream(
    story: PublishedTurn, known: int, client: JoinClient
) -> tuple[TurnCursor, ReplyRecord] | None:
    record = apply_log_events(ReplyRecord(turn=TURN), story.log[:known])
    at = resume_cursor(
        parse_turn_cursor(client.last_id, TURN) if client.last_id else TurnCursor(turn=TURN), record
    )
    return None if at is None else (at, record)


@given(draw_turn(), st.data())
def test_client_ends_with_the_recorded_reply_for_any_interleaving(
    story: PublishedTurn, data: st.DataObject
) -> None:
    client, known, cuts = JoinClient(), 1, data.draw(st.integers(0, 4))
    while True:
        known = data.draw(
            st.integers(max(known, story.count_until_attempt(client.attempt)), len(story.log))
        )
        if client.ends:
            known = len(story.log)
        connection = resume_stream(story, known, client)
        if connection is None:
            break
        at, record = connection
        at, stream_events = advance_by_record(at, record)
        frames = list(stream_events)
        upcoming = story.log[known:]
        # Any tokens at all, in any order: lost, repeated, late, and of attempts given up
        heard_of = data.draw(st.lists(st.sampled_from(story.tokens), max_size=12))
        heard_of = [t for t in heard_of if t.attempt <= max(record.attempt, client.attempt)]
        order = data.draw(st.permutations([True] * len(upcoming) + [False] * len(heard_of)))
        for is_log in order:
            if is_log:
                record = apply_log_events(record, [upcoming.pop(0)])
                at, stream_events = advance_by_record(at, record)
            else:
                at, stream_events = advance_by_token(at, heard_of.pop(0))
            frames += stream_events
        arrived = data.draw(st.integers(0, len(frames))) if cuts else len(frames)
        cuts -= 1 if cuts else 0
        for frame in frames[:arrived]:
            client.apply_event(frame)
            if client.attempt and not client.ends:
                assert story.texts[client.attempt - 1].startswith(client.text)
    match story.find_last_event.event:
        case TurnCompleted(text=PlainText(text=text)):
            assert client.text == text
            assert [end.name for end in client.ends] == ["done"]
        case TurnFailed():
            assert [end.name for end in client.ends] == ["failed"]
            assert client.text == story.texts[-1]
            assert parse_data(client.ends[0])["partial"] == story.texts[-1][:MAX_TOKEN_TEXT]
        case TurnCancelled():
            assert [end.name for end in client.ends] == ["cancelled"]
        case _:
            assert [end.name for end in client.ends] in (["redact"], ["done", "redact"])
            assert parse_data(client.ends[-1])["replacement"] == "(withheld)"


@given(pieces, st.data())
def test_tokens_are_shown_once_and_in_order(said_pieces: list[str], data: st.DataObject) -> None:
    at, shown_texts = TurnCursor(turn=TURN), list[str]()
    events = build_token_events(1, said_pieces)
    for event in data.draw(st.sampled_from([events, events * 2, [*events[:2], *events]])):
        at, stream_events = advance_by_token(at, event)
        shown_texts += [
            str(parse_data(each)["text"]) for each in stream_events if each.name == "token"
        ]
    assert shown_texts == said_pieces


def test_watcher_resuming_inside_a_token_gets_the_rest_of_it() -> None:
    _, stream_events = advance_by_token(
        TurnCursor(turn=TURN, attempt=1, offset=3),
        Token(call="3.1", attempt=1, offset=1, text="ello"),
    )
    assert [(parse_data(each), str(each.cursor)) for each in stream_events] == [
        ({"text": "lo"}, "3.1.5")
    ]


def test_token_after_a_gap_is_buffered_until_the_missing_text_arrives() -> None:
    at, stream_events = advance_by_token(
        TurnCursor(turn=TURN, attempt=1, offset=3), Token(call="3.1", attempt=1, offset=5, text="!")
    )
    assert stream_events == ()
    record = apply_log_events(
        ReplyRecord(turn=TURN), record_events([build_started(1), build_completed("Hello!")])
    )
    _, stream_events = advance_by_record(at, record)
    assert [parse_data(each) for each in stream_events] == [
        {"text": "lo!"},
        {"finish": "stop", "turn": 3, "sequence": 2},
    ]


def test_new_attempt_resets_once_from_either_log_or_token_stream() -> None:
    at = TurnCursor(turn=TURN, attempt=1, offset=5)
    record = apply_log_events(
        ReplyRecord(turn=TURN), record_events([build_started(1), build_lost(1), build_started(2)])
    )
    after_log, by_log = advance_by_record(at, record)
    after_tokens, by_tokens = advance_by_token(at, AttemptReset(call="3.1", attempt=2))
    assert by_log == by_tokens
    assert after_log == after_tokens == TurnCursor(turn=TURN, attempt=2, offset=0)
    assert [str(each.cursor) for each in by_log] == ["3.2.0"]
    assert advance_by_token(after_log, AttemptReset(call="3.1", attempt=2))[1] == ()
    assert advance_by_record(after_tokens, record)[1] == ()


def test_tokens_of_an_abandoned_attempt_are_not_shown() -> None:
    late = Token(call="3.1", attempt=1, offset=0, text="late")
    assert advance_by_token(TurnCursor(turn=TURN, attempt=2, offset=0), late) == (
        TurnCursor(turn=TURN, attempt=2, offset=0),
        (),
    )


def test_other_turns_do_not_end_this_one() -> None:
    other = TurnCompleted(turn=2, call="2.1", text=PlainText(text="Other"), finish="stop")
    assert (
        apply_log_events(ReplyRecord(turn=TURN), record_events([build_started(1), other])).end_event
        is None
    )


def test_redacted_turn_shows_only_its_redaction() -> None:
    record = apply_log_events(
        ReplyRecord(turn=TURN),
        record_events([build_started(1), build_completed("a secret"), build_redacted()]),
    )
    at = resume_cursor(TurnCursor(turn=TURN, attempt=1, offset=4), record)
    assert at is not None
    _, stream_events = advance_by_record(at, record)
    assert [(each.name, parse_data(each)) for each in stream_events] == [
        ("redact", {"reason": "it names a person", "replacement": "(withheld)"})
    ]


def test_client_that_saw_the_reply_gets_a_later_redaction_once() -> None:
    record = apply_log_events(
        ReplyRecord(turn=TURN),
        record_events([build_started(1), build_completed("a secret"), build_redacted()]),
    )
    at = resume_cursor(parse_turn_cursor("3.1.8.done", TURN), record)
    assert at is not None
    at, stream_events = advance_by_record(at, record)
    assert [each.name for each in stream_events] == ["redact"]
    assert resume_cursor(at, record) is None


def test_client_ahead_of_the_recorded_reply_is_reset() -> None:
    record = apply_log_events(
        ReplyRecord(turn=TURN), record_events([build_started(1), build_completed("short")])
    )
    _, stream_events = advance_by_record(TurnCursor(turn=TURN, attempt=1, offset=99), record)
    assert [each.name for each in stream_events] == ["attempt-reset", "token", "done"]


GARBAGE = [
    *("", "x", "3", "3.1", "3.1.", "3.1.5.", "3.1.5.gone", "3.1.5 ", "03.1.5", "3.-1.5", "3.1.5\n"),
    *("3.1.\u0665", "2.1.5", "4.1.5", "3.0.5", "3.1.9999999999", "3.1.5.done.done", "9" * 5000),
]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_malformed_cursor_and_cursor_of_another_turn_are_refused(garbage: str) -> None:
    with pytest.raises(Refused, match="bad-cursor"):
        parse_turn_cursor(garbage, TURN)


@pytest.mark.parametrize("future", ["3.2.0", "3.1.6", "3.1.5.failed", "3.1.5.redact"])
def test_a_cursor_ahead_of_the_record_is_refused(future: str) -> None:
    record = apply_log_events(
        ReplyRecord(turn=TURN), record_events([build_started(1), build_completed("Hello")])
    )
    with pytest.raises(Refused, match="bad-cursor"):
        resume_cursor(parse_turn_cursor(future, TURN), record)


def test_cursor_ahead_of_live_tokens_differs_from_cursor_of_lost_tokens() -> None:
    tokens = build_token_events(1, ["Hel", "lo"])
    assert not is_ahead_of_tokens(TurnCursor(turn=TURN, attempt=1, offset=5).position, tokens)
    assert is_ahead_of_tokens(TurnCursor(turn=TURN, attempt=1, offset=6).position, tokens)
    assert not is_ahead_of_tokens(TurnCursor(turn=TURN, attempt=1, offset=6).position, [])
    assert not is_ahead_of_tokens(TurnCursor(turn=TURN, attempt=2, offset=6).position, tokens)


@given(st.integers(1, 10**9 - 1), st.integers(1, 10**9 - 1), st.integers(0, 10**9 - 1))
def test_cursor_survives_a_format_and_parse_round_trip(
    turn: int, attempt: int, offset: int
) -> None:
    assume(turn)
    at = TurnCursor(turn=turn, attempt=attempt, offset=offset, end="done")
    assert parse_turn_cursor(str(at), turn) == at


def test_late_watcher_of_a_failed_turn_gets_its_partial_text_in_pieces() -> None:
    text = "One more word. " * 100
    failed = TurnFailed(turn=TURN, code="late", detail="too late", retryable=True)
    record = apply_log_events(
        ReplyRecord(turn=TURN), record_events([build_started(1), build_lost(1, text), failed])
    )
    _, stream_events = advance_by_record(TurnCursor(turn=TURN), record)
    pieces = [str(parse_data(each)["text"]) for each in stream_events if each.name == "token"]
    assert "".join(pieces) == text
    assert max(map(len, pieces)) == MAX_TOKEN_TEXT
    assert parse_data(stream_events[-1]) == {
        "code": "late",
        "retryable": True,
        "partial": text[:MAX_TOKEN_TEXT],
    }
