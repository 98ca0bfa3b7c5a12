"""Embedders that wait until a test lets them go on; one shares nothing with the shipped one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from turnlog.services.knowledge.embedders import CheckedEmbedder


@dataclass
class LetterEmbedder:
    """Counts vowels."""

    name: str = "letters-1"
    may_embed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by the test; nothing is embedded before."""
    is_asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def embed_texts(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """See `Embedder`."""
        self.is_asked.set()
        await self.may_embed.wait()
        return [[1.0, *(float(each.count(letter)) for letter in "aeiou")] for each in texts]


@dataclass
class PausedEmbedder:
    """Another embedder, which waits before it answers until a test lets it go on."""

    embedder: CheckedEmbedder
    name: str
    """That of the embedder."""
    may_embed: asyncio.Event = field(default_factory=asyncio.Event)
    is_asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def embed_texts(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """See `Embedder`."""
        self.is_asked.set()
        await self.may_embed.wait()
        return await self.embedder.embed_texts(texts)
