"""What a stranger opens the events of a bundle with: AES as it stands in the standard, by hand."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.events.codec import decode_event, encode_batch
from turnlog.events.content import PlainText
from turnlog.events.model.turn_events import TurnSubmitted
from turnlog.events.seals.boxes import seal_box
from turnlog.events.seals.event_boxes import EventSeal
from turnlog.events.seals.person_names import PseudonymKey
from turnlog.events.seals.sealed_payload import SealedPayload
from turnlog.events.seals.word_fields import merge_words as merge_own
from turnlog.events.testing import make_draft
from turnlog.services.bundle.check_lines import VerificationFailure
from turnlog.services.bundle.sealed_events import decrypt_box, merge_words, open_event

KEY = bytes(range(32))

JSON = st.recursive(
    st.none() | st.integers(0, 9) | st.text("ab", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("012ab"), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=40), st.binary(max_size=199))
def test_boxes_open_by_hand_as_by_the_library(key: bytes, place: bytes, data: bytes) -> None:
    box = seal_box(key, place, data)
    assert decrypt_box(key, place, box) == b"\0" + data


def test_altered_box_place_or_key_is_found() -> None:
    box = seal_box(KEY, b"place", b"some words")
    for key, place, altered in (
        (bytes(32), b"place", box),
        (KEY, b"plaza", box),
        (KEY, b"place", box[:-1] + bytes([box[-1] ^ 1])),
        (KEY, b"place", box[:12] + bytes([box[12] ^ 1]) + box[13:]),
        (KEY, b"place", box[:20]),
        (KEY[:-1], b"place", box),
    ):
        with pytest.raises(VerificationFailure, match="its box"):
            decrypt_box(key, place, altered)
    with pytest.raises(VerificationFailure, match="there is no key for it"):
        open_event({"sealed": ""}, None)


PSEUDONYMS = PseudonymKey(KEY)

SEAL = EventSeal(key=KEY, leaves="s:3", pseudonyms=PSEUDONYMS)


def seal_submission(user: str, actor: str) -> SealedPayload:
    event = TurnSubmitted(turn=1, text=PlainText(text="hi"), user=user)
    (message,) = encode_batch(
        tenant="t",
        session="s",
        after=None,
        drafts=[make_draft(event, actor=actor)],
        seal=lambda event, opened: SEAL.seal_event(type(event), opened),
    ).messages
    assert isinstance(message.payload, SealedPayload)
    return message.payload


@given(st.text('a\\"é~', min_size=1, max_size=9), st.sampled_from(["worker", "user:é", "user:a"]))
def test_names_are_put_back_as_the_service_puts_them_back(user: str, actor: str) -> None:
    stored = seal_submission(user, actor)
    opened = open_event(json.loads(stored), KEY.hex())
    product = json.loads(decode_event(SealedPayload(bytes(stored), KEY), 1).opened_bytes)
    assert (opened["actor"], opened["data"]) == (actor, product["data"])
    assert opened["data"]["user"] == user


@pytest.mark.parametrize("field", ["actor", "user"])
def test_name_that_was_swapped_in_the_clear_is_found(field: str) -> None:
    event = json.loads(seal_submission("ann", "user:ben"))
    place = event if field == "actor" else event["data"]
    place[field] = place[field][:-22] + PSEUDONYMS.build_pseudonym("eve")[1:]
    with pytest.raises(VerificationFailure, match="a name of somebody else"):
        open_event(event, KEY.hex())


def test_name_that_was_swapped_in_the_box_is_found() -> None:
    event = json.loads(seal_submission("ann", "user:ben"))
    event["sealed"] = json.loads(seal_submission("eve", "user:ben"))["sealed"]
    with pytest.raises(VerificationFailure, match="a name of somebody else"):
        open_event(event, KEY.hex())


def test_box_puts_a_name_in_the_place_of_no_word_but_a_pseudonym() -> None:
    event = json.loads(seal_submission("ann", "worker"))
    event["data"]["user"] = "worker"
    parts = (event["tenant"], event["sequence"], event["type"], event["sealedof"])
    place = "event {} {} {} {}".format(*parts).encode()
    forged = json.dumps({"names": {"worker": "ann"}}).encode()
    event["sealed"] = b64encode(seal_box(KEY, place, forged)).decode()
    with pytest.raises(VerificationFailure, match="a name of somebody else"):
        open_event(event, KEY.hex())


@given(JSON, JSON)
def test_words_are_merged_as_the_service_merges_them(data: Any, words: Any) -> None:  # noqa: ANN401
    assert merge_words(data, words) == merge_own(data, words)
