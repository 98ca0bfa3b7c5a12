"""Tokenizers: tiktoken vocabularies from the files that litellm ships; nothing is downloaded.

Loading one takes up to a second, so it happens once for each process and in a thread. The texts of
a conversation are counted again with every call, so counts are cached, keyed by a digest because
texts may be long.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import distribution
from typing import Final

from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.prompt.sources.session_material import list_vocabularies
from turnlog.services.platform.concurrency import run_in_thread

SHIPPED_VOCABULARIES: Final = ("cl100k_base", "o200k_base", "p50k_base")
"""Names of the available vocabularies."""

_TOKENIZER_FILES: Final = "litellm/litellm_core_utils/tokenizers"

MAX_CACHED_COUNTS: Final = 16_384
"""Maximum number of cached counts."""


class TiktokenVocabulary:
    """A tiktoken vocabulary, loaded when it is first used; see `TokenVocabulary`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def count_tokens(self, text: str) -> int:
        return _load_vocabulary(self._name).count(text)

    def is_for_model(self, model: str) -> bool:
        """See `TokenVocabulary.is_for_model`; only OpenAI's own models are known."""
        provider, slash, name = model.partition("/")
        if slash and provider not in {"openai", "azure"}:
            return False
        try:
            return _load_vocabulary(self._name).find_vocabulary_name(name or provider) == self._name
        except KeyError:
            return False


async def load_vocabularies(blueprint: Blueprint) -> None:
    """Load the vocabularies that a blueprint's budgets count with."""
    for name in sorted(set(list_vocabularies(blueprint))):
        await run_in_thread(lambda: _load_vocabulary(name))  # noqa: B023 - awaited before the name is another


@dataclass(frozen=True, slots=True)
class _LoadedVocabulary:
    count: Callable[[str], int]
    find_vocabulary_name: Callable[[str], str]
    """Return the vocabulary name of an OpenAI model."""


@cache
def _load_vocabulary(name: str) -> _LoadedVocabulary:
    # tiktoken looks in this folder before it downloads anything.
    files = distribution("litellm").locate_file(_TOKENIZER_FILES)
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(files))
    import tiktoken  # noqa: PLC0415 - a tenth of a second, for the few who count so

    encoding = tiktoken.get_encoding(name)
    remembered = create_cached_counter(lambda text: len(encoding.encode_ordinary(text)))
    return _LoadedVocabulary(remembered, tiktoken.encoding_name_for_model)


def create_cached_counter(
    count: Callable[[str], int], max_counts: int = MAX_CACHED_COUNTS
) -> Callable[[str], int]:
    """Return a counter that caches the latest counts; no text is kept."""
    counts = OrderedDict[bytes, int]()

    def count_cached(text: str) -> int:
        key = sha256(text.encode(errors="surrogatepass")).digest()
        known = counts.get(key)
        if known is None:
            known = counts[key] = count(text)
            if len(counts) > max_counts:
                counts.popitem(last=False)
        return known

    return count_cached
