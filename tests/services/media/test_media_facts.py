"""What the bytes of pictures, documents and recordings say of their size."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.services.media.media_samples import PNG, SAMPLES
from turnlog.services.media.media_facts import (
    MAX_PAGES,
    MAX_STEPS,
    MediaFacts,
    read_media_facts,
)
from turnlog.services.media.media_types import MEDIA_TYPES

JPEG = (
    b"\xff\xd8"
    b"\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"
    b"\xff\xff\xc0" + pack(">HBHH", 17, 8, 480, 640) + b"\x03\x01\x11\x00\x02\x11\x00\x03\x11\x00"
)


def build_webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF\x00\x00\x00\x00WEBP" + kind + pack("<I", len(body)) + body


def build_wav(seconds: float, rate: int = 8_000) -> bytes:
    data = bytes(int(seconds * rate))
    form = pack("<HHIIHH", 1, 1, rate, rate, 1, 8)
    chunks = b"LIST\x03\x00\x00\x00abc\x00"
    chunks += b"fmt " + pack("<I", len(form)) + form + b"data" + pack("<I", len(data)) + data
    return b"RIFF" + pack("<I", len(chunks) + 4) + b"WAVE" + chunks


@pytest.mark.parametrize(
    ("media_type", "data", "width", "height"),
    [
        ("image/png", PNG, 1, 1),
        ("image/png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + pack(">II", 1_800, 2_400), 1_800, 2_400),
        ("image/gif", b"GIF89a" + pack("<HH", 320, 200), 320, 200),
        ("image/jpeg", JPEG, 640, 480),
        ("image/webp", build_webp(b"VP8 ", bytes(6) + pack("<HH", 640, 480)), 640, 480),
        ("image/webp", build_webp(b"VP8L", b"\x2f" + pack("<I", 479 << 14 | 639)), 640, 480),
        ("image/webp", build_webp(b"VP8X", bytes(4) + pack("<HBHB", 639, 0, 479, 0)), 640, 480),
    ],
)
def test_size_of_a_picture_is_read(media_type: str, data: bytes, width: int, height: int) -> None:
    assert read_media_facts(media_type, data) == MediaFacts(width=width, height=height)


def test_pages_of_a_document_are_counted() -> None:
    pages = b"<< /Type /Pages /Count 2 >> << /Type /Page >> << /Type/Page/Parent 1 0 R >>"
    assert read_media_facts("application/pdf", b"%PDF-1.4 " + pages) == MediaFacts(pages=2)
    assert read_media_facts("application/pdf", b"%PDF-1.5 compressed") == MediaFacts()


@pytest.mark.parametrize(("length", "seconds"), [(0.2, 1), (3, 3), (3.1, 4)])
def test_seconds_of_a_recording_are_rounded_up(length: float, seconds: int) -> None:
    assert read_media_facts("audio/wav", build_wav(length)) == MediaFacts(seconds=seconds)


@pytest.mark.parametrize(
    ("media_type", "data"),
    [
        ("image/png", b"\x89PNG\r\n\x1a\n"),
        ("image/gif", b"GIF89a"),
        ("image/jpeg", JPEG[:22]),
        ("image/jpeg", JPEG[:25]),
        ("image/webp", build_webp(b"VP8X", b"")),
        ("audio/wav", build_wav(1)[:40]),
        ("audio/mpeg", SAMPLES["audio/mpeg"]),
    ],
)
def test_size_that_the_bytes_do_not_say_is_unknown(media_type: str, data: bytes) -> None:
    assert read_media_facts(media_type, data) == MediaFacts()


@pytest.mark.parametrize(
    ("media_type", "data"),
    [
        ("image/jpeg", JPEG[:2] + b"\xff" * MAX_STEPS + JPEG[2:]),
        ("image/jpeg", JPEG[:2] + b"\xff\x01" * MAX_STEPS + JPEG[2:]),
        ("audio/wav", build_wav(1)[:12] + b"junk\0\0\0\0" * MAX_STEPS + build_wav(1)[12:]),
    ],
)
def test_only_so_many_steps_are_taken_to_a_size(media_type: str, data: bytes) -> None:
    assert read_media_facts(media_type, data) == MediaFacts()


def test_only_so_many_pages_are_counted() -> None:
    data = b"%PDF-1.4 " + b"/Type/Page " * (MAX_PAGES + 1)
    assert read_media_facts("application/pdf", data) == MediaFacts(pages=MAX_PAGES)


@given(st.sampled_from(MEDIA_TYPES), st.binary(max_size=80), st.integers(0, 60))
def test_any_bytes_are_read_without_an_error(media_type: str, rest: bytes, kept: int) -> None:
    facts = read_media_facts(media_type, SAMPLES[media_type][:kept] + rest)
    sizes = (facts.width, facts.height, facts.pages, facts.seconds)
    assert all(each is None or each > 0 for each in sizes if each != facts.seconds)
