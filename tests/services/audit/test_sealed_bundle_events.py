"""What a stranger opens the events of a bundle with: AES as it stands in the standard, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.events.seals.boxes import seal_box
from turnlog.events.seals.word_fields import merge_words as merge_own
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


@given(JSON, JSON)
def test_words_are_merged_as_the_service_merges_them(data: Any, words: Any) -> None:  # noqa: ANN401
    assert merge_words(data, words) == merge_own(data, words)
