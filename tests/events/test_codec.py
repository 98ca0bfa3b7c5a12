"""Events to bytes and back: strict when writing, tolerant when reading."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.events.golden_bytes import encode_event
from tests.support.generators.event_samples import build_samples
from turnlog.events.codec import (
    MAX_BATCH_EVENTS,
    MAX_EVENT_BYTES,
    EventDraft,
    decode_event,
    encode_batch,
)
from turnlog.events.content import ErasedText, PlainText, SealedText, compute_digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Corrupt, Refused, TooLarge
from turnlog.events.model.turn_events import (
    TurnCompleted,
    TurnExcluded,
    TurnReleased,
    TurnSubmitted,
)
from turnlog.events.registry import (
    EventData,
    KnownEvent,
    UnknownEvent,
    apply_upcasters,
    format_event_name,
)
from turnlog.events.testing import SESSION, TENANT, make_draft, make_drafts, record_events

WAITED_FOR = (
    *("turn-submitted", "turn-submitted-system", "turn-released", "approval-decided"),
    "turn-submitted-user",
    "approval-decided-edited",
    "child-ended",
    "turn-submitted-override",
    "turn-submitted-masked",
    "turn-submitted-parts",
    "turn-submitted-handed",
    "child-settled",
)
GOLDEN = [encode_event(event) for event in build_samples().values()]

texts = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def change_fields(wire: bytes, **fields: object) -> bytes:
    return json.dumps(json.loads(wire) | fields).encode()


def read_or_none(stored: bytes) -> RecordedEvent | None:
    """Read bytes; none where they are told to be junk, which is the only error there may be."""
    try:
        return decode_event(stored, 1)
    except Corrupt:
        return None


@given(texts, st.dictionaries(texts, json_values, max_size=3))
def test_text_and_inputs_are_decoded_unchanged(text: str, inputs: dict[str, Any]) -> None:
    event = TurnSubmitted(turn=1, text=PlainText(text=text), inputs=inputs)
    (message,) = encode_batch(TENANT, SESSION, None, [make_draft(event)]).messages
    assert decode_event(message.payload, 1).event == event


@given(st.binary(max_size=300))
def test_any_bytes_decode_to_an_event_or_raise_corrupt(stored: bytes) -> None:
    read_or_none(stored)


@given(st.sampled_from(GOLDEN), st.data())
def test_damaged_bytes_decode_to_an_event_or_raise_corrupt(
    wire: bytes, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(wire)))
    end = data.draw(st.integers(start, min(len(wire), start + 20)))
    read_or_none(wire[:start] + data.draw(st.binary(max_size=8)) + wire[end:])


@given(st.sampled_from(GOLDEN), json_values, st.data())
def test_any_value_in_any_field_decodes_to_an_event_or_raises_corrupt(
    wire: bytes, value: object, data: st.DataObject
) -> None:
    fields = json.loads(wire)
    inner = data.draw(st.booleans())
    within = fields["data"] if inner else fields
    within[data.draw(st.sampled_from(sorted(within)))] = value
    read_or_none(json.dumps(fields).encode())


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"{",
        b"\xff\xfe",
        b"[" * 10_000,
        b'{"a":' * 10_000,
        GOLDEN[0] + b"x",
        GOLDEN[0][:-1],
        GOLDEN[0].replace(b'"sequence":7', b'"sequence":NaN'),
        GOLDEN[0].replace(b'"sequence":7', b'"sequence":7.5'),
        GOLDEN[0].replace(b'"subject":"s-1"', b'"subject":"\\ud800"'),
        GOLDEN[0].replace(b'"specversion":"1.0"', b'"specversion":"2.0"'),
    ],
)
def test_undecodable_bytes_raise_corrupt_with_their_position(junk: bytes) -> None:
    with pytest.raises(Corrupt) as raised:
        decode_event(junk, 4711)
    assert "4711" in raised.value.where


def test_bytes_that_readers_could_decode_differently_are_refused() -> None:
    excluded = encode_event(build_samples()["turn-excluded"])
    forged = excluded.replace(b'"subject"', b'"type":"turnlog.turn-restored.v1","subject"', 1)
    with pytest.raises(Corrupt, match="two types"):
        decode_event(forged, 4711)


def test_event_of_a_later_release_is_unknown_and_keeps_its_data() -> None:
    wire = change_fields(GOLDEN[0], type="turnlog.turn-sung.v2", data={"melody": ["c", "e"]})
    event = decode_event(wire, 1)
    assert event.event == UnknownEvent("turnlog.turn-sung.v2", {"melody": ["c", "e"]})
    assert format_event_name(event.envelope.type) == "turn-sung"
    assert event.stored == wire


def test_later_version_of_a_known_event_is_unknown() -> None:
    later = change_fields(
        encode_event(build_samples()["turn-completed"]), type="turnlog.turn-completed.v2"
    )
    assert isinstance(decode_event(later, 1).event, UnknownEvent)


@pytest.mark.parametrize("name", sorted(build_samples()))
def test_fields_of_a_later_release_are_ignored(name: str) -> None:
    event = build_samples()[name]
    fields = json.loads(encode_event(event))
    fields["data"] |= {"since": "next year"}
    wire = json.dumps(fields | {"newextension": 1}).encode()
    assert decode_event(wire, 1).event == event


def test_upcaster_converts_old_data_to_the_current_version() -> None:
    def to_v2(data: EventData) -> tuple[str, EventData]:
        return "turnlog.turn-hummed.v2", data | {"loud": False}

    def to_v3(data: EventData) -> tuple[str, EventData]:
        return "turnlog.turn-hummed.v3", {"volume": 1 if data["loud"] else 0}

    steps = {"turnlog.turn-hummed.v1": to_v2, "turnlog.turn-hummed.v2": to_v3}
    assert apply_upcasters("turnlog.turn-hummed.v1", {}, steps) == (
        "turnlog.turn-hummed.v3",
        {"volume": 0},
    )
    assert apply_upcasters("turnlog.turn-sung.v1", {}, steps) == ("turnlog.turn-sung.v1", {})


@pytest.mark.parametrize(
    "content",
    [
        PlainText(text=""),
        PlainText(text="said"),
        SealedText(sealed="b3Blbg==", key="k-1", digest="hmac-sha256:" + "0" * 64, characters=4),
        ErasedText(erased=True, digest="hmac-sha256:" + "0" * 64, characters=4),
    ],
)
def test_content_keeps_its_form_and_its_length(
    content: PlainText | SealedText | ErasedText,
) -> None:
    (event,) = record_events(TurnCompleted(turn=1, call="1.1", text=content, finish="stop"))
    assert isinstance(event.event, TurnCompleted)
    assert event.event.text == content
    assert type(event.event.text) is type(content)


def test_content_of_an_unknown_form_is_undecodable() -> None:
    wire = change_fields(GOLDEN[0], type="turnlog.turn-completed.v1")
    fields = json.loads(wire)
    fields["data"] = {"turn": 1, "call": "1.1", "finish": "stop", "text": {"whispered": "hm"}}
    assert read_or_none(json.dumps(fields).encode()) is None


def test_text_length_counts_code_points_and_digest_hashes_utf8() -> None:
    text = PlainText(text="naïve 🙂")
    assert text.characters == 7
    assert text.digest == compute_digest("naïve 🙂".encode())


def test_batch_is_chained_to_the_head_it_continues() -> None:
    head = ChainHead(4, 99, compute_digest("the fourth"))
    events: list[KnownEvent] = [TurnExcluded(turn=1), TurnExcluded(turn=2), TurnReleased(turn=3)]
    batch = encode_batch(TENANT, SESSION, head, make_drafts(events, 5))
    first, second, third = (decode_event(m.payload, 100 + n) for n, m in enumerate(batch.messages))
    assert [event.sequence for event in (first, second, third)] == [5, 6, 7]
    assert first.envelope.prevhash == head.hash
    assert first.envelope.prevstreamseq == 99
    assert second.envelope.prevhash == compute_digest(first.stored)
    assert third.envelope.prevhash == compute_digest(second.stored)
    assert second.envelope.prevstreamseq is None
    assert third.head == ChainHead(7, 102, compute_digest(third.stored))


def test_first_event_of_a_session_has_no_previous_hash() -> None:
    (first,) = record_events(TurnReleased(turn=1))
    assert first.sequence == 1
    assert first.envelope.prevhash is None
    assert b"prev" not in first.stored


def test_events_of_the_work_queue_have_subjects_of_their_own() -> None:
    subjects = {
        name: encode_batch(TENANT, SESSION, None, [make_draft(event)]).messages[0].subject
        for name, event in build_samples().items()
    }
    prefix = f"session.{TENANT}.{SESSION}."
    assert subjects["turn-submitted"] == f"{prefix}turn.submitted"
    assert subjects["turn-released"] == f"{prefix}turn.released"
    others = {subject for name, subject in subjects.items() if name not in WAITED_FOR}
    leaves = {"session", "prompt", "turn", "call", "redaction", "erasure", "phase", "tool"}
    assert others == {
        f"{prefix}{leaf}" for leaf in (*leaves, "memory", "turn.marked", "turn.feedback")
    }


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_event_may_be_as_large_as_the_limit_and_no_larger(over: int) -> None:
    empty = len(encode_batch(TENANT, SESSION, None, [build_submission("")]).messages[0].payload)
    fitting = build_submission("x" * (MAX_EVENT_BYTES - empty + over))
    if over <= 0:
        (message,) = encode_batch(TENANT, SESSION, None, [fitting]).messages
        assert len(message.payload) == MAX_EVENT_BYTES + over
        return
    with pytest.raises(TooLarge) as refusal:
        encode_batch(TENANT, SESSION, None, [fitting])
    assert (refusal.value.size, refusal.value.limit) == (MAX_EVENT_BYTES + 1, MAX_EVENT_BYTES)
    assert refusal.value.fix


def build_submission(text: str) -> EventDraft:
    return make_draft(TurnSubmitted(turn=1, text=PlainText(text=text)))


@pytest.mark.parametrize("count", [0, MAX_BATCH_EVENTS + 1])
def test_empty_or_too_large_batch_is_refused(count: int) -> None:
    with pytest.raises(TooLarge):
        encode_batch(TENANT, SESSION, None, [build_submission("x")] * count)


def test_time_is_stored_in_utc_with_microseconds() -> None:
    east = timezone(timedelta(hours=2))
    at = replace(build_submission("x"), at=datetime(2026, 11, 21, 11, 30, 0, 7, tzinfo=east))
    (message,) = encode_batch(TENANT, SESSION, None, [at]).messages
    assert decode_event(message.payload, 1).envelope.time == "2026-11-21T09:30:00.000007Z"


@pytest.mark.parametrize("name", build_samples())
def test_encoded_message_records_the_event_that_its_bytes_decode_to(name: str) -> None:
    draft = make_draft(build_samples()[name], 1)
    (message,) = encode_batch(TENANT, SESSION, None, [draft]).messages
    assert message.envelope is not None
    recorded = message.record_at(7)
    assert recorded == decode_event(message.payload, 7)
    assert recorded.event is draft.event


def test_event_with_half_of_a_surrogate_pair_is_refused_by_name() -> None:
    with pytest.raises(Refused) as refusal:
        encode_batch(TENANT, SESSION, None, [build_submission("a\ud800")])
    assert (refusal.value.code, refusal.value.field) == ("bad-text", TurnSubmitted.type)
