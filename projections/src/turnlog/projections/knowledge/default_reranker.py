"""The default reranker: half of the score is what an entry means, half the words it has.

Meaning is the confidence of the entry, the cosine of query and entry by the embedder. Words are the
share of the query's distinct words that the entry's title or text contains, in any case and without
words of one or two letters. So an entry that means nearly the same and names the very things that
were asked for comes before one that only means nearly the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from turnlog.projections.knowledge.search_port import KnowledgeHit

FUSION_NAME: Final = "words-meaning-1"
"""Name and version of this rule, as retrievals record it."""

_MEANING_SHARE: Final = 0.5

_WORD: Final = re.compile(r"\w{3,}")


def score_hits(query: str, hits: Sequence[KnowledgeHit]) -> list[float]:
    """Return the score of each hit, from 0 to 1."""
    words = _collect_words(query)
    return [_score_hit(words, hit) for hit in hits]


def _score_hit(words: frozenset[str], hit: KnowledgeHit) -> float:
    named = words & _collect_words(f"{hit.title} {hit.text}")
    share = len(named) / len(words) if words else 0.0
    return _MEANING_SHARE * hit.confidence + (1 - _MEANING_SHARE) * share


def _collect_words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))
