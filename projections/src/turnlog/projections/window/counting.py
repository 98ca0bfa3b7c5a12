"""Token counters. Each count names its counter and says whether it is exact.

A message is counted as a whole, as the model receives it. Its tokens are then divided among its
parts, so that the parts add up to the message. Vocabularies are passed in: loading one reads files,
and this module reads none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise
from typing import NamedTuple, Protocol, assert_never

from turnlog.events.errors import Corrupt
from turnlog.events.manifest import Counter
from turnlog.projections.blueprint.budget import CharactersPerToken, CounterSpec, Tiktoken


class Vocabulary(Protocol):
    """The token vocabulary of a family of models."""

    def count(self, text: str) -> int:
        ...

    def is_of(self, model: str) -> bool:
        """Return whether a model, named as litellm does, uses exactly this vocabulary."""
        ...


class Counting(Protocol):
    """Counts the tokens of a call."""

    def __hash__(self) -> int:
        """Counters must be hashable, since counts are cached by counter."""
        ...

    @property
    def counter(self) -> Counter:
        """The counter as the manifest records it."""
        ...

    def count(self, text: str) -> int:
        ...

    def shares(self, texts: Iterable[str]) -> list[int]:
        """Count consecutive texts; the counts add up to the count of the joined text."""
        ...


class ByCharacters(NamedTuple):
    """Counts one token per `per_token` characters, rounded up.

    No text but the empty one is free, so a token limit also limits characters. This bounds the size
    of a session's state.
    """

    per_token: int

    @property
    def counter(self) -> Counter:
        """See `TokenCounter.counter`: `chars/4`."""
        return Counter(name=f"chars/{self.per_token}", exact=False)

    def count(self, text: str) -> int:
        return -(-len(text) // self.per_token)

    def shares(self, texts: Iterable[str]) -> list[int]:
        ends = accumulate((len(text) for text in texts), initial=0)
        return [
            later - earlier
            for earlier, later in pairwise(-(-end // self.per_token) for end in ends)
        ]


class ByVocabulary(NamedTuple):
    """Counts the tokens that a vocabulary makes of a text.

    Exact for the texts of a model that uses this vocabulary. What a provider adds around messages
    is not counted.
    """

    name: str
    vocabulary: Vocabulary
    exact: bool

    @property
    def counter(self) -> Counter:
        """See `TokenCounter.counter`: `o200k_base`."""
        return Counter(name=self.name, exact=self.exact)

    def count(self, text: str) -> int:
        return self.vocabulary.count(text)

    def shares(self, texts: Iterable[str]) -> list[int]:
        """See `TokenCounter.count_shares`; the longest text takes the difference at the joints."""
        standing = list(texts)
        counts = [self.count(text) for text in standing]
        if counts:
            longest = max(range(len(counts)), key=counts.__getitem__)
            counts[longest] += self.count("".join(standing)) - sum(counts)
        return counts


def counting_by(spec: CounterSpec, known: Mapping[str, Vocabulary], model: str) -> Counting:
    """Return the counter for a model; raises `Corrupt` if its vocabulary is missing."""
    match spec:
        case CharactersPerToken(chars_per_token=per_token):
            return ByCharacters(per_token)
        case Tiktoken(tiktoken=name):
            if name not in known:
                raise Corrupt(f"vocabulary {name}", "it was not read")
            return ByVocabulary(name, known[name], known[name].is_of(model))
        case _ as never:
            assert_never(never)
