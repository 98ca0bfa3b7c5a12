"""Counting tokens. Every count says who counted and whether it is exact.

A message is counted as a whole, since that is what a model is sent; its tokens are then shared
out among its parts, so that the parts of a prompt add up to it. A vocabulary is handed in: reading
one takes files, and this module reads none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise
from typing import NamedTuple, Protocol, assert_never

from turnlog.events.errors import Corrupt
from turnlog.events.manifest import Counter
from turnlog.projections.blueprint.budget import CharactersPerToken, CounterSpec, Tiktoken


class Vocabulary(Protocol):
    """The tokens of a family of models."""

    def count(self, text: str) -> int:
        """Count the tokens of a text."""
        ...

    def is_of(self, model: str) -> bool:
        """Tell whether a model has this very vocabulary; `model` as litellm names it."""
        ...


class Counting(Protocol):
    """Who counts the tokens of a call."""

    def __hash__(self) -> int:
        """Tell counters apart, so that what they counted can be remembered."""
        ...

    @property
    def counter(self) -> Counter:
        """The name it has on the record."""
        ...

    def count(self, text: str) -> int:
        """Count the tokens of a text."""
        ...

    def shares(self, texts: Iterable[str]) -> list[int]:
        """Count texts that stand one behind the other; together they are what the whole counts."""
        ...


class ByCharacters(NamedTuple):
    """Counts a token for every so many characters, rounding up.

    No text but the empty one is free: a window that holds so many tokens holds no more
    characters than they stand for, which is what bounds the state of a session.
    """

    per_token: int

    @property
    def counter(self) -> Counter:
        """See `Counting.counter`: `chars/4`."""
        return Counter(name=f"chars/{self.per_token}", exact=False)

    def count(self, text: str) -> int:
        """See `Counting.count`."""
        return -(-len(text) // self.per_token)

    def shares(self, texts: Iterable[str]) -> list[int]:
        """See `Counting.shares`."""
        ends = accumulate((len(text) for text in texts), initial=0)
        return [
            later - earlier
            for earlier, later in pairwise(-(-end // self.per_token) for end in ends)
        ]


class ByVocabulary(NamedTuple):
    """Counts what a vocabulary makes of a text.

    Exact for the texts of a model that has this vocabulary. What a provider puts around messages
    is not counted by anybody but the provider.
    """

    name: str
    vocabulary: Vocabulary
    exact: bool

    @property
    def counter(self) -> Counter:
        """See `Counting.counter`: `o200k_base`."""
        return Counter(name=self.name, exact=self.exact)

    def count(self, text: str) -> int:
        """See `Counting.count`."""
        return self.vocabulary.count(text)

    def shares(self, texts: Iterable[str]) -> list[int]:
        """See `Counting.shares`; what tokens across a joint make different goes to the longest."""
        standing = list(texts)
        counts = [self.count(text) for text in standing]
        if counts:
            longest = max(range(len(counts)), key=counts.__getitem__)
            counts[longest] += self.count("".join(standing)) - sum(counts)
        return counts


def counting_by(spec: CounterSpec, known: Mapping[str, Vocabulary], model: str) -> Counting:
    """Give who counts for a model; raises `Corrupt` where the vocabulary was not handed in."""
    match spec:
        case CharactersPerToken(chars_per_token=per_token):
            return ByCharacters(per_token)
        case Tiktoken(tiktoken=name):
            if name not in known:
                raise Corrupt(f"vocabulary {name}", "it was not read")
            return ByVocabulary(name, known[name], known[name].is_of(model))
        case _ as never:
            assert_never(never)
