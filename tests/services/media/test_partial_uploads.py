"""What is kept of uploads that broke off, and for how long."""

from __future__ import annotations

import pytest

from tests.services.media.media_samples import PNG
from turnlog.events.content import compute_digest
from turnlog.events.errors import Refused
from turnlog.services.media.partial_uploads import PARTIAL_SECONDS, PartialUploads

KEY, OTHER = ("t", compute_digest(PNG)), ("other", compute_digest(PNG))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_kept_bytes_are_taken_once_at_their_end() -> None:
    kept = PartialUploads(clock=Clock())
    kept.keep_bytes(KEY, b"abc")
    assert (kept.get_offset(KEY), kept.get_offset(OTHER)) == (3, 0)
    with pytest.raises(Refused, match="offset-differs"):
        kept.take_bytes(KEY, 2)
    with pytest.raises(Refused, match="offset-differs"):
        kept.take_bytes(OTHER, 3)
    assert kept.take_bytes(KEY, 3) == b"abc"
    assert kept.get_offset(KEY) == 0


def test_upload_that_begins_again_loses_what_was_kept() -> None:
    kept = PartialUploads(clock=Clock())
    kept.keep_bytes(KEY, b"abc")
    assert kept.take_bytes(KEY, 0) == b""
    assert kept.get_offset(KEY) == 0


def test_kept_bytes_are_dropped_after_some_minutes() -> None:
    clock = Clock()
    kept = PartialUploads(clock=clock)
    kept.keep_bytes(KEY, b"abc")
    clock.now = PARTIAL_SECONDS - 1
    assert kept.get_offset(KEY) == 3
    clock.now = PARTIAL_SECONDS
    assert kept.get_offset(KEY) == 0


def test_oldest_kept_bytes_go_first() -> None:
    kept = PartialUploads(max_bytes=5, clock=Clock())
    kept.keep_bytes(KEY, b"abc")
    kept.keep_bytes(OTHER, b"def")
    assert (kept.get_offset(KEY), kept.get_offset(OTHER)) == (0, 3)
