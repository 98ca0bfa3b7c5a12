"""Vocabularies, read from the files that litellm ships; nothing is fetched.

Reading one takes up to a second and is done once a process, beside the event loop. The texts of a
conversation are counted again with every call, so counts are remembered: by what the texts digest
to, since texts may be of any length.
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
"""The vocabularies there are."""
_FILES: Final = "litellm/litellm_core_utils/tokenizers"
REMEMBERED: Final = 16_384
"""Texts whose counts are kept."""


class TiktokenVocabulary:
    """One of tiktoken's vocabularies, read when it is first asked; see `Vocabulary`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def count(self, text: str) -> int:
        """See `Vocabulary.count`."""
        return _read(self._name).count(text)

    def is_of(self, model: str) -> bool:
        """See `Vocabulary.is_of`; only OpenAI's own models are known."""
        provider, slash, name = model.partition("/")
        if slash and provider not in {"openai", "azure"}:
            return False
        try:
            return _read(self._name).named(name or provider) == self._name
        except KeyError:
            return False


async def ready(blueprint: Blueprint) -> None:
    """Read the vocabularies that the budgets of a blueprint count by."""
    for name in sorted(set(vocabularies_named(blueprint))):
        await aside(lambda: _read(name))  # noqa: B023 - awaited before the name is another


@dataclass(frozen=True, slots=True)
class _Read:
    count: Callable[[str], int]
    named: Callable[[str], str]
    """Which vocabulary a model of OpenAI's has."""


@cache
def _read(name: str) -> _Read:
    # tiktoken looks here before it looks anywhere else
    files = distribution("litellm").locate_file(_FILES)
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(files))
    import tiktoken  # noqa: PLC0415 - a tenth of a second, for the few who count so

    encoding = tiktoken.get_encoding(name)
    remembered = remembering(lambda text: len(encoding.encode_ordinary(text)))
    return _Read(remembered, tiktoken.encoding_name_for_model)


def remembering(count: Callable[[str], int], most: int = REMEMBERED) -> Callable[[str], int]:
    """Count each text once, until so many others have been counted; no text is held."""
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
