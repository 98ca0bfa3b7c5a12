"""Vocabularies, read from the files that litellm ships; nothing is fetched.

Reading one takes up to a second and is done once a process, beside the event loop. The texts of a
conversation are counted again with every call, so counts are remembered.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.metadata import distribution
from typing import Final

from turnlog.projections.blueprint.budget import Tiktoken
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.window.counting import Vocabulary
from turnlog.services.runtime.aside import aside

_FILES: Final = "litellm/litellm_core_utils/tokenizers"
_REMEMBERED: Final = 16_384
"""Texts whose counts are kept."""


class TiktokenVocabulary:
    """One of tiktoken's vocabularies; see `Vocabulary`."""

    def __init__(self, name: str) -> None:
        # tiktoken looks here before it looks anywhere else
        files = distribution("litellm").locate_file(_FILES)
        os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(files))
        import tiktoken  # noqa: PLC0415 - a tenth of a second, for the few who count so

        encoding = tiktoken.get_encoding(name)
        self._name = name
        self._named = tiktoken.encoding_name_for_model

        @lru_cache(_REMEMBERED)
        def count(text: str) -> int:
            return len(encoding.encode_ordinary(text))

        self._count = count

    def count(self, text: str) -> int:
        """See `Vocabulary.count`."""
        return self._count(text)

    def is_of(self, model: str) -> bool:
        """See `Vocabulary.is_of`; only OpenAI's own models are known."""
        provider, slash, name = model.partition("/")
        if slash and provider not in {"openai", "azure"}:
            return False
        try:
            return self._named(name or provider) == self._name
        except KeyError:
            return False


class Vocabularies:
    """Those a process has read."""

    def __init__(self) -> None:
        self._read: dict[str, Vocabulary] = {}

    async def of(self, blueprint: Blueprint) -> Mapping[str, Vocabulary]:
        """Give the vocabularies that the budgets of a blueprint count by."""
        return {name: await self._one(name) for name in sorted(set(_named_in(blueprint)))}

    async def _one(self, name: str) -> Vocabulary:
        if name not in self._read:
            self._read[name] = await aside(lambda: TiktokenVocabulary(name))
        return self._read[name]


def _named_in(blueprint: Blueprint) -> Iterable[str]:
    counters = (budget.counter for budget in blueprint.budget.values())
    return (counter.tiktoken for counter in counters if isinstance(counter, Tiktoken))
