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

from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.window.pinned import vocabularies_named
from turnlog.services.runtime.aside import aside

SHIPPED: Final = ("cl100k_base", "o200k_base", "p50k_base")
"""Names of the available vocabularies."""
_FILES: Final = "litellm/litellm_core_utils/tokenizers"
REMEMBERED: Final = 16_384
"""Maximum number of cached counts."""


class TiktokenVocabulary:
    """A tiktoken vocabulary, loaded when it is first used; see `TokenVocabulary`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def count(self, text: str) -> int:
        return _read(self._name).count(text)

    def is_of(self, model: str) -> bool:
        """See `TokenVocabulary.is_for_model`; only OpenAI's own models are known."""
        provider, slash, name = model.partition("/")
        if slash and provider not in {"openai", "azure"}:
            return False
        try:
            return _read(self._name).named(name or provider) == self._name
        except KeyError:
            return False


async def ready(blueprint: Blueprint) -> None:
    """Load the vocabularies that a blueprint's budgets count with."""
    for name in sorted(set(vocabularies_named(blueprint))):
        await aside(lambda: _read(name))  # noqa: B023 - awaited before the name is another


@dataclass(frozen=True, slots=True)
class _Read:
    count: Callable[[str], int]
    named: Callable[[str], str]
    """Return the vocabulary name of an OpenAI model."""


@cache
def _read(name: str) -> _Read:
    # tiktoken looks in this folder before it downloads anything.
    files = distribution("litellm").locate_file(_FILES)
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(files))
    import tiktoken  # noqa: PLC0415 - a tenth of a second, for the few who count so

    encoding = tiktoken.get_encoding(name)
    remembered = remembering(lambda text: len(encoding.encode_ordinary(text)))
    return _Read(remembered, tiktoken.encoding_name_for_model)


def remembering(count: Callable[[str], int], most: int = REMEMBERED) -> Callable[[str], int]:
    """Return a counter that caches the latest counts; no text is kept."""
    held = OrderedDict[bytes, int]()

    def counted(text: str) -> int:
        key = sha256(text.encode(errors="surrogatepass")).digest()
        known = held.get(key)
        if known is None:
            known = held[key] = count(text)
            if len(held) > most:
                held.popitem(last=False)
        return known

    return counted
