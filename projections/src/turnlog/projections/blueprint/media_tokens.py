"""The tokens of pictures, recordings and files, by the rules that providers publish.

Every count is an estimate: a provider may scale a picture in another way or change its rule. What a
part lacks, such as the size of a picture that its bytes do not say, is assumed. A change of a rule
changes the manifests of calls on record when they are assembled again, so it needs a new version of
the assembler.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import ceil, sqrt
from typing import Final, NamedTuple

from turnlog.events.model.content_parts import MediaPart

_ASSUMED_SIDE: Final = 1_024
"""Width and height in pixels of a picture whose bytes do not say them."""

_ASSUMED_PAGE_BYTES: Final = 50_000
"""Size of a page of a document whose bytes do not say how many it has."""

_TEXT_BYTES: Final = 4
"""Bytes of a token of a file that is sent as a text."""

_ASSUMED_SECOND_BYTES: Final = 16_000
"""Size of a second of a recording whose bytes do not say its length: 128 kbit/s."""


class MediaTokenRule(NamedTuple):
    """How a family of models counts what is no text."""

    models: re.Pattern[str]
    """Matches the names of the models, as litellm spells them."""
    count_picture: Callable[[int, int], int]
    """Returns the tokens of a picture of this width and height in pixels."""
    per_page: int
    per_second: int


class _Tiles(NamedTuple):
    """OpenAI's rule: a base, and an amount for each tile of 512 pixels."""

    base: int
    per_tile: int

    def count_tokens(self, width: int, height: int) -> int:
        """Count a picture scaled into 2,048 pixels, and its shorter side to 768."""
        scale = min(1.0, 2_048 / max(width, height))
        scale *= min(1.0, 768 / (min(width, height) * scale))
        columns, rows = (ceil(round(side * scale, 6) / 512) for side in (width, height))
        return self.base + self.per_tile * columns * rows


class _Patches(NamedTuple):
    """OpenAI's rule for smaller models: patches of 32 pixels, at most 1,536, times a factor."""

    hundredths: int

    def count_tokens(self, width: int, height: int) -> int:
        return ceil(_count_patches(width, height) * self.hundredths / 100)


def _count_patches(width: int, height: int, side: int = 32, most: int = 1_536) -> int:
    columns, rows = ceil(width / side), ceil(height / side)
    if columns * rows <= most:
        return columns * rows
    scale = sqrt(side**2 * most / (width * height))
    scaled = width * scale / side, height * scale / side
    # Scaled further until a whole number of patches fits one of its sides.
    shrink = min(int(each) / each for each in scaled if each >= 1)
    columns, rows = (ceil(round(each * shrink, 6)) for each in scaled)
    return columns * rows


def _count_anthropic_picture(width: int, height: int) -> int:
    """Count a picture of Anthropic's: a token for 750 pixels, after its scaling."""
    scale = min(1.0, 1_568 / max(width, height))
    return min(1_600, ceil(width * scale * height * scale / 750))


def _count_gemini_picture(width: int, height: int) -> int:
    """Count a picture of Gemini's: 258 tokens, or as many for each tile of a larger one."""
    if max(width, height) <= 384:  # noqa: PLR2004 - the published limit of a picture in one tile
        return 258
    tile = max(1, int(min(width, height) / 1.5))
    return 258 * ceil(width / tile) * ceil(height / tile)


def _build_openai_rule(models: str, count_picture: Callable[[int, int], int]) -> MediaTokenRule:
    return MediaTokenRule(re.compile(models), count_picture, per_page=1_500, per_second=10)


_RULES: Final = (
    MediaTokenRule(re.compile("claude|anthropic"), _count_anthropic_picture, 3_000, 32),
    MediaTokenRule(re.compile("gemini"), _count_gemini_picture, 258, 32),
    _build_openai_rule(r"gpt-4\.1-mini|gpt-5-mini", _Patches(162).count_tokens),
    _build_openai_rule(r"gpt-4\.1-nano|gpt-5-nano", _Patches(246).count_tokens),
    _build_openai_rule("o4-mini", _Patches(172).count_tokens),
    _build_openai_rule("gpt-4o-mini", _Tiles(2_833, 5_667).count_tokens),
    _build_openai_rule("gpt-5", _Tiles(70, 140).count_tokens),
    _build_openai_rule(r"\bo[13]\b", _Tiles(75, 150).count_tokens),
)
"""The first that matches counts."""

_DEFAULT_RULE: Final = _build_openai_rule("", _Tiles(85, 170).count_tokens)
"""The rule of gpt-4o and gpt-4.1, for every other model."""


def count_media_tokens(part: MediaPart, model: str) -> int:
    """Return how many tokens a part takes in a prompt of a model; at least one."""
    rule = next((each for each in _RULES if each.models.search(model)), _DEFAULT_RULE)
    match part.kind:
        case "image":
            width, height = part.width or _ASSUMED_SIDE, part.height or _ASSUMED_SIDE
            return rule.count_picture(width, height)
        case "file" if part.media_type == "text/plain":
            return ceil(part.size / _TEXT_BYTES)
        case "file":
            return rule.per_page * (part.pages or ceil(part.size / _ASSUMED_PAGE_BYTES) or 1)
        case "audio":
            return rule.per_second * (part.seconds or ceil(part.size / _ASSUMED_SECOND_BYTES) or 1)
