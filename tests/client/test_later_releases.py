"""A client reads what a service of a later release answers, without the fields that are new."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from turnlog.client import DoneEvent, ReplyDonePayload, operations
from turnlog.client.sse_events import SseMessage, parse_turn_event
from turnlog.contract.turn_payloads import SubmittedTurn, UndecidedTurnView

SUBMITTED = {"session": "s", "turn": 1, "sequence": 2, "stream": "/stream", "events": "/events"}

APPROVAL = {
    "session": "s",
    "turn": 1,
    "approval": 1,
    "call": "1.1",
    "id": "c1",
    "tool": "pay",
    "arguments": "{}",
    "deadline": "2026-11-27T06:00:00Z",
    "decide": "/decide",
}


def test_new_fields_of_an_answer_and_of_its_parts_are_left_out() -> None:
    page: dict[str, Any] = {
        "session": "s",
        "sequence": 7,
        "summaries": 0,
        "turns": [
            {
                "turn": 1,
                "status": "completed",
                "text": "Hello",
                "role": "user",
                "reply": "Hello.",
                "finish": "stop",
                "call": "1.1",
                "excluded": False,
                "redacted": False,
                "reason": None,
                "sequence": 2,
                "submitted_at": "2026-11-27T05:00:00Z",
                "settled_at": None,
                "mood": "fine",
            }
        ],
    }
    history = operations.fetch_history("s").parse_answer(httpx.Response(200, json=page))
    (turn,) = history.turns
    assert (turn.reply, history.sequence) == ("Hello.", 7)
    assert {"mood", "summaries"}.isdisjoint(history.model_dump() | turn.model_dump())


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"status": "waiting-for-approval", "approvals": [APPROVAL]}, UndecidedTurnView),
        ({"status": "waiting-for-a-quota"}, SubmittedTurn),
        ({}, SubmittedTurn),
    ],
)
def test_turn_that_goes_on_waits_for_a_person_only_where_the_answer_says_so(
    more: dict[str, Any], kind: type[SubmittedTurn]
) -> None:
    response = httpx.Response(202, json=SUBMITTED | {"mood": "fine"} | more)
    assert type(operations.parse_unsettled(response)) is kind


def test_new_fields_of_a_stream_event_are_left_out() -> None:
    data = '{"turn":1,"sequence":7,"finish":"stop","mood":"fine"}'
    end = parse_turn_event(SseMessage("done", data, "1.1.9.done"))
    assert isinstance(end, DoneEvent)
    assert end.data == ReplyDonePayload(turn=1, sequence=7, finish="stop")
