"""The type of bytes by what they are, compared with what the sender calls them."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.services.media.media_samples import PNG, SAMPLES
from turnlog.events.errors import Refused
from turnlog.services.media.media_types import (
    HEAD_BYTES,
    MEDIA_TYPES,
    TypedBytes,
    detect_media_type,
    parse_media_type,
)


async def cut_into_pieces(data: bytes, size: int) -> AsyncGenerator[bytes]:
    for begin in range(0, len(data), size):
        yield data[begin : begin + size]


async def read_checked(data: bytes, announced: str | None, size: int = 7) -> tuple[bytes, str]:
    typed = TypedBytes(announced)
    read = b"".join([piece async for piece in typed.check_pieces(cut_into_pieces(data, size))])
    assert typed.media_type
    return read, typed.media_type


@pytest.mark.parametrize("media_type", MEDIA_TYPES)
def test_each_type_is_known_by_its_first_bytes(media_type: str) -> None:
    assert detect_media_type(SAMPLES[media_type][:HEAD_BYTES]) == media_type


@pytest.mark.parametrize("size", [1, 3, HEAD_BYTES, 1000])
@pytest.mark.parametrize("media_type", MEDIA_TYPES)
async def test_bytes_pass_unchanged_in_pieces_of_any_size(media_type: str, size: int) -> None:
    data = SAMPLES[media_type]
    assert await read_checked(data, media_type, size) == (data, media_type)
    assert await read_checked(data, None, size) == (data, media_type)


@pytest.mark.parametrize("announced", MEDIA_TYPES)
@pytest.mark.parametrize("media_type", MEDIA_TYPES)
async def test_bytes_of_another_type_than_announced_are_refused(
    announced: str, media_type: str
) -> None:
    if announced == media_type:
        return
    with pytest.raises(Refused, match=f"media-type-differs: the bytes are {media_type}"):
        await read_checked(SAMPLES[media_type], announced)


@pytest.mark.parametrize(
    "data",
    [
        b"MZ\x90\x00\x03\x00\x00\x00\x04\x00\x00\x00\xff\xff\x00\x00",
        b"PK\x03\x04\x14\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00",
        b"\x00" * 32,
        b"\xff\xfeU\x00T\x00F\x00-\x001\x006\x00",
        b"\x89PNG",
    ],
)
async def test_bytes_of_no_known_type_are_refused(data: bytes) -> None:
    with pytest.raises(Refused, match="unsupported-media"):
        await read_checked(data, None)


@pytest.mark.parametrize("broken", [b"\xff", b"\0", b"\xc3"])
async def test_text_that_is_none_further_on_is_refused(broken: bytes) -> None:
    with pytest.raises(Refused, match="media-type-differs: the bytes are no text"):
        await read_checked(b"a text that begins well" + broken, "text/plain")


async def test_character_on_the_border_of_two_pieces_is_text() -> None:
    data = "ä€😀".encode() * 20
    for size in range(1, 8):
        assert await read_checked(data, "text/plain", size) == (data, "text/plain")


async def test_no_bytes_are_refused() -> None:
    with pytest.raises(Refused, match="there are no bytes"):
        await read_checked(b"", "image/png")


async def test_page_that_is_called_a_picture_is_refused() -> None:
    with pytest.raises(Refused, match="the bytes are text/plain, not image/png"):
        await read_checked(b"<script>alert(1)</script>", "image/png")


@pytest.mark.parametrize(
    ("announced", "media_type"),
    [
        ("image/jpg", "image/jpeg"),
        (" Image/PNG ; x=y", "image/png"),
        ("text/plain; charset=utf-8", "text/plain"),
        ("audio/x-wav", "audio/wav"),
        ("application/octet-stream", None),
        (None, None),
        ("", None),
    ],
)
def test_announced_type_is_read_as_registered(announced: str | None, media_type: str) -> None:
    assert parse_media_type(announced) == media_type


@pytest.mark.parametrize("announced", ["text/html", "image/svg+xml", "image", "x" * 500, "a/\n"])
def test_other_types_are_refused_with_those_that_are_taken(announced: str) -> None:
    with pytest.raises(Refused) as refusal:
        parse_media_type(announced)
    assert refusal.value.code == "unsupported-media"
    assert "image/png" in refusal.value.fix
    assert len(refusal.value.detail) < 300


@given(st.binary(max_size=64), st.integers(1, 20))
async def test_what_passes_is_what_arrived(data: bytes, size: int) -> None:
    whole = PNG[:HEAD_BYTES] + data
    assert await read_checked(whole, None, size) == (whole, "image/png")
