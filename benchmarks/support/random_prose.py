"""Random texts: English words at their usual frequency, no two texts alike.

A store compresses what repeats, so a figure about bytes needs texts that repeat no more than real
ones do. The words are those of this repository's docs.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

_DOCS = Path(__file__).parents[2] / "docs"

_WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")


@dataclass
class RandomProse:
    """Generates another text each time; the same seed gives the same texts."""

    seed: int = 1
    _random: Random = field(init=False)
    _words: list[str] = field(init=False)
    _weights: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)  # noqa: S311 - the same figures need the same texts
        texts = (file.read_text() for file in sorted(_DOCS.rglob("*.md")))
        counted = Counter(word for text in texts for word in _WORD.findall(text))
        self._words, self._weights = list(counted), list(counted.values())

    def generate_text(self, characters: int) -> str:
        """Return a text of so many characters."""
        words = self._random.choices(self._words, self._weights, k=characters // 3)
        return " ".join(words)[:characters].ljust(characters, ".")
