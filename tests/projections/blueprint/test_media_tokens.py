"""Tokens of pictures, recordings and files: the examples that providers publish."""

from __future__ import annotations

import pytest

from turnlog.events.content import compute_digest
from turnlog.events.model.content_parts import MediaPart
from turnlog.projections.blueprint.media_tokens import count_media_tokens

DIGEST = compute_digest("bytes")


@pytest.mark.parametrize(
    ("model", "width", "height", "tokens"),
    [
        ("openai/gpt-4o", 1024, 1024, 765),
        ("openai/gpt-4o", 2048, 4096, 1105),
        ("openai/gpt-4o", 512, 512, 255),
        ("openai/gpt-4o-mini", 512, 512, 8500),
        ("openai/gpt-4.1-mini", 1024, 1024, 1659),
        ("openai/gpt-4.1-mini", 1800, 2400, 2353),
        ("openai/o4-mini", 1024, 1024, 1762),
        ("anthropic/claude-sonnet-4-5", 200, 200, 54),
        ("anthropic/claude-sonnet-4-5", 1000, 1000, 1334),
        ("bedrock/anthropic.claude-3-haiku", 1092, 1092, 1590),
        ("anthropic/claude-sonnet-4-5", 8000, 8000, 1600),
        ("gemini/gemini-2.5-flash", 384, 384, 258),
        ("vertex_ai/gemini-2.5-pro", 960, 540, 1548),
        ("ollama/llava", 1024, 1024, 765),
    ],
)
def test_picture_counts_as_its_provider_publishes(
    model: str, width: int, height: int, tokens: int
) -> None:
    picture = MediaPart(
        kind="image", digest=DIGEST, size=9, media_type="image/png", width=width, height=height
    )
    assert count_media_tokens(picture, model) == tokens


def test_picture_of_unknown_size_counts_as_one_of_1024_pixels() -> None:
    picture = MediaPart(kind="image", digest=DIGEST, size=8, media_type="image/png")
    assert count_media_tokens(picture, "openai/gpt-4o") == 765


@pytest.mark.parametrize(
    ("model", "pages", "tokens"),
    [("gemini/gemini-2.5-flash", 3, 774), ("anthropic/claude-sonnet-4-5", 2, 6000)],
)
def test_document_counts_by_its_pages(model: str, pages: int, tokens: int) -> None:
    document = MediaPart(
        kind="file", digest=DIGEST, size=9, media_type="application/pdf", pages=pages
    )
    assert count_media_tokens(document, model) == tokens


def test_document_and_recording_of_unknown_length_count_by_their_bytes() -> None:
    document = MediaPart(kind="file", digest=DIGEST, size=100_001, media_type="application/pdf")
    assert count_media_tokens(document, "gemini/gemini-2.5-flash") == 3 * 258
    sound = MediaPart(kind="audio", digest=DIGEST, size=32_000, media_type="audio/mpeg")
    assert count_media_tokens(sound, "gemini/gemini-2.5-flash") == 2 * 32


def test_recording_counts_by_its_seconds() -> None:
    sound = MediaPart(kind="audio", digest=DIGEST, size=9, media_type="audio/wav", seconds=60)
    assert count_media_tokens(sound, "gemini/gemini-2.5-flash") == 1920


@pytest.mark.parametrize("side", [1, 2, 31, 767, 10_000])
def test_every_picture_takes_at_least_one_token(side: int) -> None:
    for model in ("openai/gpt-4o", "openai/gpt-5-mini", "anthropic/claude-x", "gemini/x"):
        for width, height in ((1, side), (side, 1), (side, side)):
            picture = MediaPart(
                kind="image",
                digest=DIGEST,
                size=9,
                media_type="image/png",
                width=width,
                height=height,
            )
            assert count_media_tokens(picture, model) >= 1
