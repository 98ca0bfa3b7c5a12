"""Read a provider's own count of tokens, wherever in its chunks it stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from turnlog.services.worker.model.answers.chunk_fields import get_choice, get_field, read_count
from turnlog.services.worker.model.model_types import ModelUsage

_INPUT_NAMES: Final = ("prompt_tokens", "input_tokens")
_OUTPUT_NAMES: Final = ("completion_tokens", "output_tokens")
_CACHED_NAMES: Final = ("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")
"""Beside the counts: Moonshot, DeepSeek, and servers that keep Anthropic's word."""

_WRITTEN_NAMES: Final = (
    "cache_creation_input_tokens",
    "cache_creation_tokens",
    "cache_write_tokens",
)
"""Tokens that were put into a cache: Anthropic, litellm, and OpenRouter."""


def has_usage(chunk: object) -> bool:
    """Return whether a chunk reports usage."""
    return next(_iterate_counts(chunk), None) is not None


def read_reported_usage(chunks: Iterable[object]) -> ModelUsage | None:
    """Return the provider's own count from raw chunks; None if there is none, or only zeros."""
    counts = [count for chunk in chunks for count in _iterate_counts(chunk)]
    sent, received = _find_most(counts, _INPUT_NAMES), _find_most(counts, _OUTPUT_NAMES)
    if not sent and not received:
        return None
    sent_details = _list_details(counts, ("prompt_tokens_details", "input_tokens_details"))
    received_details = _list_details(counts, ("completion_tokens_details", "output_tokens_details"))
    return ModelUsage(
        sent,
        received,
        cached_input_tokens=_find_most([*counts, *sent_details], _CACHED_NAMES),
        cache_write_tokens=_find_most([*counts, *sent_details], _WRITTEN_NAMES),
        reasoning_tokens=_find_most([*counts, *received_details], ("reasoning_tokens",)),
    )


def _iterate_counts(chunk: object) -> Iterator[object]:
    """Yield the counts of a chunk: Groq and Moonshot put them into places of their own."""
    choice = get_choice(chunk)
    for holder in (chunk, choice, get_field(choice, "delta"), get_field(chunk, "x_groq")):
        if count := get_field(holder, "usage"):
            yield count


def _find_most(counts: Sequence[object], names: Sequence[str]) -> int:
    """Return the largest count of these names.

    Some providers report input first and output last, some repeat both: the maximum is the total.
    """
    return max(
        (read_count(get_field(count, name)) for count in counts for name in names), default=0
    )


def _list_details(counts: Sequence[object], groups: Sequence[str]) -> list[object]:
    return [details for count in counts for group in groups if (details := get_field(count, group))]
