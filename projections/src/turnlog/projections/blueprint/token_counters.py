"""Token counters. Each count names its counter and says whether it is exact.

A message is counted as a whole, as the model receives it. Its tokens are then divided among its
parts, so that the parts add up to the message. Vocabularies are passed in: loading one reads files,
and this module reads none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate, pairwise
from typing import Final, NamedTuple, Protocol, assert_never

from turnlog.events.errors import Corrupt
from turnlog.events.model.manifest import CounterRef
from turnlog.projections.blueprint.schema.budget_specs import (
    BudgetSpec,
    CharacterCounterSpec,
    CounterSpec,
    TiktokenCounterSpec,
)


class TokenVocabulary(Protocol):
    """The token vocabulary of a family of models."""

    def count_tokens(self, text: str) -> int: ...

    def is_for_model(self, model: str) -> bool:
        """Return whether a model, named as litellm does, uses exactly this vocabulary."""
        ...


class TokenCounter(Protocol):
    """Counts the tokens of a call."""

    def __hash__(self) -> int:
        """Counters must be hashable, since counts are cached by counter."""
        ...

    @property
    def counter(self) -> CounterRef:
        """The counter as the manifest records it."""
        ...

    def count_tokens(self, text: str) -> int: ...

    def estimate_tokens(self, characters: int) -> int:
        """Estimate the tokens of a text that was not read, from its length."""
        ...

    def count_shares(self, texts: Iterable[str]) -> list[int]:
        """Count consecutive texts; the counts add up to the count of the joined text."""
        ...


class CharacterCounter(NamedTuple):
    """Counts one token per `per_token` characters, rounded up.

    No text but the empty one is free, so a token limit also limits characters. This bounds the size
    of a session's state.
    """

    per_token: int

    @property
    def counter(self) -> CounterRef:
        """See `TokenCounter.counter`: `chars/4`."""
        return CounterRef(name=f"chars/{self.per_token}", exact=False)

    def count_tokens(self, text: str) -> int:
        return -(-len(text) // self.per_token)

    def estimate_tokens(self, characters: int) -> int:
        """See `TokenCounter.estimate_tokens`; here it is the count."""
        return -(-characters // self.per_token)

    def count_shares(self, texts: Iterable[str]) -> list[int]:
        ends = accumulate((len(text) for text in texts), initial=0)
        return [
            later - earlier
            for earlier, later in pairwise(-(-end // self.per_token) for end in ends)
        ]


class VocabularyCounter(NamedTuple):
    """Counts the tokens that a vocabulary makes of a text.

    Exact for the texts of a model that uses this vocabulary. What a provider adds around messages
    is not counted.
    """

    name: str
    vocabulary: TokenVocabulary
    exact: bool

    @property
    def counter(self) -> CounterRef:
        """See `TokenCounter.counter`: `o200k_base`."""
        return CounterRef(name=self.name, exact=self.exact)

    def count_tokens(self, text: str) -> int:
        return self.vocabulary.count_tokens(text)

    def estimate_tokens(self, characters: int) -> int:
        """See `TokenCounter.estimate_tokens`: as calls without a budget are counted."""
        return _DEFAULT_COUNTER.estimate_tokens(characters)

    def count_shares(self, texts: Iterable[str]) -> list[int]:
        """See `TokenCounter.count_shares`; the longest text takes the difference at the joints."""
        all_texts = list(texts)
        counts = [self.count_tokens(text) for text in all_texts]
        if counts:
            longest = max(range(len(counts)), key=counts.__getitem__)
            counts[longest] += self.count_tokens("".join(all_texts)) - sum(counts)
        return counts


_DEFAULT_COUNTER: Final = CharacterCounter(per_token=4)
"""The counter of calls without a budget."""


def build_call_counter(
    budget: BudgetSpec | None, vocabularies: Mapping[str, TokenVocabulary], model: str
) -> TokenCounter:
    """Return the counter of a call with this budget; see `build_token_counter`."""
    return build_token_counter(budget.counter, vocabularies, model) if budget else _DEFAULT_COUNTER


def build_token_counter(
    spec: CounterSpec, vocabularies: Mapping[str, TokenVocabulary], model: str
) -> TokenCounter:
    """Return the counter for a model; raises `Corrupt` if its vocabulary is missing."""
    match spec:
        case CharacterCounterSpec(chars_per_token=per_token):
            return CharacterCounter(per_token)
        case TiktokenCounterSpec(tiktoken=name):
            if name not in vocabularies:
                raise Corrupt(f"vocabulary {name}", "it was not read")
            return VocabularyCounter(
                name, vocabularies[name], vocabularies[name].is_for_model(model)
            )
        case _ as never:
            assert_never(never)
