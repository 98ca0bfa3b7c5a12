"""Every frame that withholds a reply matches the published schema, whatever was recorded before."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from itertools import product
from typing import Final

import pytest

from tests.support.sessions.published_schemas import list_turn_frame_faults
from turnlog.client.sse_events import RedactEvent, SseDecoder, SseMessage, parse_turn_event
from turnlog.events.content import Content, ErasedText, PlainText, SealedText, compute_digest
from turnlog.events.log_token_join import ReplyRecord, apply_log_events
from turnlog.events.model.attempt_figures import AttemptCost, TokenUsage
from turnlog.events.model.call_events import AttemptEnded, AttemptStarted
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.turn_events import PhaseExchange, ReplyFallback, TurnCompleted
from turnlog.events.registry import KnownEvent
from turnlog.events.testing import record_events
from turnlog.services.gateway.turn_answers import encode_turn_events
from turnlog.services.use_cases.turns.turn_stream_events import (
    TurnCursor,
    TurnStreamEvent,
    advance_by_record,
    parse_turn_cursor,
    resume_cursor,
)

TEXTS: Final = ("", "(Taken back.)", "a\r\nb\u2028c\u0085d\x00", '{"x": null}', "\U0001f600" * 600)

DIGEST: Final = compute_digest("(Taken back.)")

REPLACEMENTS: Final[dict[str, Content]] = {
    **{f"plain-{number}": PlainText(text=text) for number, text in enumerate(TEXTS)},
    "sealed": SealedText(sealed="eA==", key="k", digest=DIGEST, characters=13),
    "erased": ErasedText(erased=True, digest=DIGEST, characters=13),
}
"""Every kind of text that an event can have as the replacement."""

STARTED: Final = AttemptStarted(turn=1, call="1.1", attempt=1, worker="w")

LOST: Final = AttemptEnded(
    turn=1,
    call="1.1",
    attempt=1,
    outcome="lost",
    usage=TokenUsage(known="unknown"),
    cost=AttemptCost(price="unknown", table="none"),
    partial=PlainText(text="It was"),
)

AGAIN: Final = STARTED.model_copy(update={"attempt": 2})

REPLY: Final = TurnCompleted(turn=1, call="1.1", text=PlainText(text="It was Ann."), finish="stop")

FREEFORM: Final = PhaseExchange(phase="talk", kind="freeform", count=1)

DEBRIEF: Final = PhaseExchange(phase="end", kind="debrief", count=1)

PASTS: Final[dict[str, tuple[KnownEvent, ...]]] = {
    "no-attempt": (),
    "open-attempt": (STARTED,),
    "lost-attempt": (STARTED, LOST, AGAIN),
    "empty-reply": (STARTED, REPLY.model_copy(update={"text": PlainText(text="")})),
    "reply": (STARTED, LOST, AGAIN, REPLY),
    "erased-reply": (STARTED, REPLY.model_copy(update={"text": REPLACEMENTS["erased"]})),
    "freeform": (STARTED, REPLY.model_copy(update={"exchange": FREEFORM})),
    "debrief": (STARTED, REPLY.model_copy(update={"exchange": DEBRIEF})),
    "fallback": (
        STARTED,
        LOST,
        REPLY.model_copy(
            update={"call": None, "finish": None, "fallback": ReplyFallback(code="x", detail="")}
        ),
    ),
}
"""What can be on record of a turn before its reply is withheld, by a rule or by a person."""

REDACTIONS: Final = tuple(
    ReplyRedacted(
        turn=1, reason=reason, rule=rule, replacement=PlainText(text=""),
        withheld=withheld, outcomes=outcomes, kept_results=kept,
    )
    for (reason, rule), withheld, (outcomes, kept) in product(
        [("it names a person", "operator"), ("", "a-rule"), (TEXTS[2], "")],
        [None, DIGEST],
        [("", ()), ("shop_look: done", (4, 5))],
    )
)  # fmt: skip
"""Every combination of the fields of the event."""


async def iterate_given(events: Sequence[TurnStreamEvent]) -> AsyncGenerator[TurnStreamEvent]:
    for event in events:
        yield event


async def send_and_decode(events: Sequence[TurnStreamEvent]) -> list[SseMessage]:
    """Return what a client gets of the events of one connection."""
    decoder, messages = SseDecoder(), list[SseMessage]()
    async for frame in encode_turn_events(iterate_given(events)):
        messages += decoder.decode_bytes(frame)
    return messages


def build_connections(
    past: Sequence[KnownEvent], redacted: ReplyRedacted
) -> list[list[TurnStreamEvent]]:
    """Return what each client is sent: one that saw all, and one that resumes at each cursor."""
    *before, last = record_events(*past, redacted)
    known = apply_log_events(ReplyRecord(turn=1), before)
    full = apply_log_events(known, [last])
    at, sent = advance_by_record(TurnCursor(turn=1), known)
    connections = [[*sent, *advance_by_record(at, full)[1]]]
    for cursor in (TurnCursor(turn=1), *(event.cursor for event in sent)):
        resumed = resume_cursor(parse_turn_cursor(str(cursor), 1), full)
        assert resumed is not None
        connections.append([*advance_by_record(resumed, full)[1]])
    return connections


@pytest.mark.parametrize("past", PASTS)
@pytest.mark.parametrize("replacement", REPLACEMENTS)
async def test_redact_matches_the_published_schema(past: str, replacement: str) -> None:
    instead = REPLACEMENTS[replacement]
    shown = instead.text if isinstance(instead, PlainText) else ""
    for each in REDACTIONS:
        redacted = each.model_copy(update={"replacement": instead})
        for connection in build_connections(PASTS[past], redacted):
            messages = await send_and_decode(connection)
            for message in messages:
                data = json.loads(message.data)
                assert list_turn_frame_faults(message.cursor, message.name, data) == []
            if messages[-1].name == "redact":
                cursor = messages[-1].cursor
                assert parse_turn_event(messages[-1]) == RedactEvent(each.reason, shown, cursor)
            else:  # The reply was sent, and its stream ended, before it was withheld.
                assert messages[-1].name == "done"
