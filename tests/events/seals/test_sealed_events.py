"""The events of sealed sessions: what is stored of them, and what they open to."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator, Sequence

import pytest
from pydantic import JsonValue

from tests.support.generators.event_samples import build_samples
from turnlog.events.codec import CommandRef, EventBatch, EventDraft, decode_event, encode_batch
from turnlog.events.content import ErasedText, PlainText, compute_digest
from turnlog.events.envelope import Envelope
from turnlog.events.errors import Corrupt, KeyringMissing
from turnlog.events.event_model import ReplyTextEvent
from turnlog.events.fork_copy import copy_events
from turnlog.events.model.turn_events import TurnReleased, TurnSubmitted
from turnlog.events.registry import EVENT_TYPES, KnownEvent
from turnlog.events.seals.event_boxes import EventSeal
from turnlog.events.seals.person_names import PseudonymKey
from turnlog.events.seals.sealed_payload import SealedPayload, parse_sealed_header
from turnlog.events.seals.word_fields import WordField, find_word_fields
from turnlog.events.testing import make_draft, make_drafts

KEY = bytes(range(32))

SEAL = EventSeal(key=KEY, leaves="s:3", pseudonyms=PseudonymKey(KEY))

SAMPLES = [each for each in build_samples().values() if type(each) in EVENT_TYPES.values()]


def encode_sealed(*events: KnownEvent) -> EventBatch:
    return encode_drafts(make_drafts(events))


def encode_drafts(drafts: Sequence[EventDraft]) -> EventBatch:
    return encode_batch(
        tenant="t",
        session="s",
        after=None,
        drafts=drafts,
        seal=lambda event, opened: SEAL.seal_event(type(event), opened),
    )


def iterate_texts(value: JsonValue) -> Iterator[str]:
    """Yield the longer texts of a value; short ones may be anywhere by chance."""
    if isinstance(value, str) and len(value) > 6:
        yield value
    if isinstance(value, dict):
        value = list(value.values())
    for each in value if isinstance(value, list) else ():
        yield from iterate_texts(each)


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: type(event).__name__)
def test_every_event_opens_to_what_was_sealed(event: KnownEvent) -> None:
    (message,) = encode_sealed(event).messages
    (plain,) = encode_batch("t", "s", None, make_drafts([event], 1)).messages
    if not isinstance(message.payload, SealedPayload):
        assert message.payload == plain.payload
        return
    received = pickle.loads(pickle.dumps(SealedPayload(bytes(message.payload), KEY)))  # noqa: S301
    recorded = decode_event(received, 7)
    assert recorded.event == event
    assert recorded.envelope.model_dump() == decode_event(plain.payload, 7).envelope.model_dump()
    assert recorded.stored == message.payload
    assert Envelope.model_validate_json(recorded.opened_bytes) == Envelope.model_validate_json(
        plain.payload
    )
    assert decode_event(SealedPayload(bytes(message.payload), None), 7).event.type == event.type
    with pytest.raises(KeyringMissing, match="TURNLOG_KEYRING"):
        decode_event(bytes(message.payload), 7)


@pytest.mark.parametrize("event", SAMPLES, ids=lambda event: type(event).__name__)
def test_no_words_of_an_event_are_in_its_stored_bytes(event: KnownEvent) -> None:
    (message,) = encode_sealed(event).messages
    places = find_word_fields(type(event)).fields
    data = event.model_dump(mode="json", exclude_defaults=True)
    for name in (name for name, each in places.items() if isinstance(each, WordField)):
        for text in iterate_texts(data.get(name)):
            assert text.encode() not in message.payload, (name, text)


def test_every_text_that_is_withheld_with_a_reply_is_sealed() -> None:
    kinds = [kind for kind in EVENT_TYPES.values() if issubclass(kind, ReplyTextEvent)]
    for kind in kinds:
        assert set(kind.reply_texts) <= find_word_fields(kind).fields.keys(), kind
    assert len(kinds) > 5


def test_digest_of_the_command_is_sealed_and_comes_back() -> None:
    command = CommandRef("key", compute_digest("the body"))
    draft = make_draft(TurnReleased(turn=1), command=command)
    (message,) = encode_drafts([draft]).messages
    assert command.hash.encode() not in message.payload
    assert decode_event(message.payload, 1).envelope.commandhash == command.hash


def test_erased_words_leave_their_lengths_and_empty_values() -> None:
    event = TurnSubmitted(turn=1, text=PlainText(text="hello"), inputs={"a": "b"}, user="ann")
    (message,) = encode_sealed(event).messages
    erased = decode_event(SealedPayload(bytes(message.payload), None), 1).event
    text = ErasedText(erased=True, digest="", characters=5)
    user = SEAL.pseudonyms.build_pseudonym("ann")
    assert erased == TurnSubmitted(turn=1, text=text, user=user)


def test_box_that_was_altered_or_moved_does_not_open() -> None:
    one, two = encode_sealed(
        *(TurnSubmitted(turn=turn, text=PlainText(text="same")) for turn in (1, 1))
    ).messages
    header = parse_sealed_header(two.payload)
    assert header is not None
    moved = re.sub(rb'"sealed":"[^"]*"', b'"sealed":"%b"' % header.box, one.payload)
    for broken in (SealedPayload(moved, KEY), SealedPayload(bytes(one.payload), bytes(32))):
        with pytest.raises(Corrupt, match="its box was altered, or is of another key"):
            decode_event(broken, 1)
    with pytest.raises(Corrupt, match="the record is gone"):
        decode_event(SealedPayload(bytes(one.payload), None, "the record is gone"), 1)


def test_words_that_look_like_a_box_are_none() -> None:
    inputs: dict[str, JsonValue] = {"actor": "", "sealedof": "s:1", "sealed": "AAAA", "data": {}}
    event = TurnSubmitted(turn=1, inputs=inputs)
    (plain,) = encode_batch("t", "s", None, make_drafts([event], 1)).messages
    assert parse_sealed_header(plain.payload) is None
    assert decode_event(plain.payload, 1).event == event


def test_copy_in_a_fork_opens_with_the_keys_of_the_original() -> None:
    events = [TurnSubmitted(turn=turn, text=PlainText(text=f"text {turn}")) for turn in (1, 2)]
    batch = encode_sealed(*events)
    first, second = (decode_event(each.payload, each.sequence) for each in batch.messages)
    (copy,) = copy_events("fork", first.head, [second], "/turnlog/test").messages
    recorded = copy.record_at(9)
    assert (recorded.session, recorded.event) == ("fork", events[1])
    assert recorded.envelope.commandhash is None
    assert b"text 2" not in copy.payload
