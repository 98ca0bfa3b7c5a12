"""The client knows every event of a turn's stream that the reference of events lists."""

from __future__ import annotations

import runpy
from typing import Any, Final

import pytest

from tests.docs.doc_pages import ROOT
from turnlog.client.sse_events import (
    DoneEvent,
    OtherEvent,
    SseMessage,
    parse_session_event,
    parse_turn_event,
)

EXAMPLES: Final = runpy.run_path(str(ROOT / "docs/generate/event_reference.py"))["EXAMPLES"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: type(each[1]).__name__)
def test_client_recognises_every_event_of_a_turn_stream(example: tuple[str, Any]) -> None:
    cursor, payload = example
    data: str = payload.model_dump_json()
    event = parse_turn_event(SseMessage(payload.event, data, cursor))
    assert not isinstance(event, OtherEvent)
    assert event.cursor == cursor
    if isinstance(event, DoneEvent):
        assert event.data.model_dump(exclude_none=True) == payload.model_dump(exclude_none=True)


def test_recorded_event_has_an_envelope_and_an_unreadable_one_does_not() -> None:
    sample = (ROOT / "tests/events/golden/turn-completed.v1.json").read_text()
    event = parse_session_event(SseMessage("turn-completed", sample, "7"))
    assert event.envelope
    assert event.envelope.type == "turnlog.turn-completed.v1"
    assert event.data["turn"]
    lost = parse_session_event(
        SseMessage("unreadable", '{"subject": "s.3", "detail": "lost"}', "3")
    )
    assert (lost.envelope, lost.data["detail"]) == (None, "lost")
