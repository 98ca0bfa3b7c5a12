"""Token counters. Each count names its counter and says whether it is exact.

A message is counted as a whole, as the model receives it. Its tokens are then divided among its
parts, so that the parts add up to the message. Vocabularies are passed in: loading one reads files,
and this module reads none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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


FACTOR_STEPS: Final = 20
"""Steps of a factor between one and two: it is a multiple of 0.05."""


class CharacterCounter(NamedTuple):
    """Counts one token per `per_token` characters, times a factor, rounded up.

    No text but the empty one is free, so a token limit also limits characters. This bounds the size
    of a session's state.
    """

    per_token: int
    factor_steps: int = FACTOR_STEPS

    @property
    def counter(self) -> CounterRef:
        """See `TokenCounter.counter`: `chars/4`."""
        return _describe_counter(f"chars/{self.per_token}", self.factor_steps, exact=False)

    def count_tokens(self, text: str) -> int:
        return self.estimate_tokens(len(text))

    def estimate_tokens(self, characters: int) -> int:
        """See `TokenCounter.estimate_tokens`; here it is the count."""
        return _scale_count(-(-characters // self.per_token), self.factor_steps)

    def count_shares(self, texts: Iterable[str]) -> list[int]:
        ends = accumulate((len(text) for text in texts), initial=0)
        return list(_iterate_differences(map(self.estimate_tokens, ends)))


class VocabularyCounter(NamedTuple):
    """Counts the tokens that a vocabulary makes of a text, times a factor, rounded up.

    Exact for the texts of a model that uses this vocabulary. What a provider adds around messages
    is not counted.
    """

    name: str
    vocabulary: TokenVocabulary
    exact: bool
    factor_steps: int = FACTOR_STEPS

    @property
    def counter(self) -> CounterRef:
        """See `TokenCounter.counter`: `o200k_base`."""
        return _describe_counter(self.name, self.factor_steps, exact=self.exact)

    def count_tokens(self, text: str) -> int:
        return _scale_count(self.vocabulary.count_tokens(text), self.factor_steps)

    def estimate_tokens(self, characters: int) -> int:
        """See `TokenCounter.estimate_tokens`: as calls without a budget are counted."""
        return _scale_count(_DEFAULT_COUNTER.estimate_tokens(characters), self.factor_steps)

    def count_shares(self, texts: Iterable[str]) -> list[int]:
        """See `TokenCounter.count_shares`; the longest text takes the difference at the joints."""
        all_texts = list(texts)
        counts = [self.vocabulary.count_tokens(text) for text in all_texts]
        if counts:
            longest = max(range(len(counts)), key=counts.__getitem__)
            counts[longest] += self.vocabulary.count_tokens("".join(all_texts)) - sum(counts)
        sums = accumulate(counts, initial=0)
        scaled = (_scale_count(each, self.factor_steps) for each in sums)
        return list(_iterate_differences(scaled))


def _scale_count(tokens: int, factor_steps: int) -> int:
    return -(-tokens * factor_steps // FACTOR_STEPS)


def _describe_counter(name: str, factor_steps: int, *, exact: bool) -> CounterRef:
    is_corrected = factor_steps != FACTOR_STEPS
    return CounterRef(
        name=name, exact=exact and not is_corrected, factor=factor_steps / FACTOR_STEPS
    )


def format_factor(factor: float) -> str:
    """Return what an error says of a factor, after the tokens; empty if nothing was corrected."""
    return f" (counts times {factor:g}, as its provider counts)" if factor > 1 else ""


def _iterate_differences(sums: Iterable[int]) -> Iterator[int]:
    return (later - earlier for earlier, later in pairwise(sums))


_DEFAULT_SPEC: Final = CharacterCounterSpec(chars_per_token=4)
_DEFAULT_COUNTER: Final = CharacterCounter(_DEFAULT_SPEC.chars_per_token)
"""The counter of calls without a budget."""


def build_call_counter(
    budget: BudgetSpec | None,
    vocabularies: Mapping[str, TokenVocabulary],
    model: str,
    factor: float = 1.0,
) -> TokenCounter:
    """Return the counter of a call with this budget; see `build_token_counter`."""
    spec = budget.counter if budget else _DEFAULT_SPEC
    return build_token_counter(spec, vocabularies, model, factor)


def build_token_counter(
    spec: CounterSpec,
    vocabularies: Mapping[str, TokenVocabulary],
    model: str,
    factor: float = 1.0,
) -> TokenCounter:
    """Return the counter for a model, which multiplies by a factor in steps of 0.05.

    Raises `Corrupt` if its vocabulary is missing.
    """
    factor_steps = round(factor * FACTOR_STEPS)
    match spec:
        case CharacterCounterSpec(chars_per_token=per_token):
            return CharacterCounter(per_token, factor_steps)
        case TiktokenCounterSpec(tiktoken=name):
            if name not in vocabularies:
                raise Corrupt(f"vocabulary {name}", "it was not read")
            return VocabularyCounter(
                name=name,
                vocabulary=vocabularies[name],
                exact=vocabularies[name].is_for_model(model),
                factor_steps=factor_steps,
            )
        case _ as never:
            assert_never(never)
