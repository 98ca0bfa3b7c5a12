"""What a prompt would cost, without the cache of its provider and with what that could read."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.model.attempt_figures import AttemptCost, TokenUsage
from turnlog.projections.audit.what_if.reassembled_calls import PromptSize
from turnlog.projections.audit.what_if.what_if_report import PromptPrice
from turnlog.projections.session_views.cost_totals import is_guessed_price
from turnlog.services.model_facts.dialects_file import PromptCacheSpec
from turnlog.services.model_facts.model_dialects import DialectTable
from turnlog.services.model_facts.model_prices import PriceTable, compute_cost


@dataclass(frozen=True, slots=True)
class PromptPricing:
    """What prompts cost, with and without the caches of their providers."""

    prices: PriceTable
    dialects: DialectTable

    def compute_prompt_price(self, prompt: PromptSize, earlier: PromptSize | None) -> PromptPrice:
        """Return what a prompt costs after the earlier one of its kind, if there was one."""
        terms = self.dialects.find_dialect(prompt.model).prompt_cache
        is_same_cache = earlier is not None and earlier.model == prompt.model
        cached = count_cached_tokens(terms, (prompt.prefix or 0) if is_same_cache else 0)
        # A rule may have made the prompt shorter than the one before it.
        whole = min(earlier.tokens, prompt.tokens) if earlier else 0
        cacheable = max(cached, count_cached_tokens(terms, whole))
        plain = self._compute_cost(prompt, TokenUsage(known="estimated"))
        actual = self._compute_cached_cost(prompt, terms, cached)
        return PromptPrice(
            micro_dollars=plain.micro_dollars or 0,
            cached_micro_dollars=actual,
            cached_tokens=cached,
            lost_tokens=cacheable - cached,
            lost_micro_dollars=actual - self._compute_cached_cost(prompt, terms, cacheable),
            guessed=is_guessed_price(plain.price),
        )

    def _compute_cached_cost(
        self, prompt: PromptSize, terms: PromptCacheSpec | None, cached: int
    ) -> int:
        # Where what is cached is marked, what is not read is written.
        written = prompt.tokens - cached if terms and terms.step is None else 0
        usage = TokenUsage(known="estimated", cached_tokens=cached, cache_write_tokens=written)
        return self._compute_cost(prompt, usage).micro_dollars or 0

    def _compute_cost(self, prompt: PromptSize, usage: TokenUsage) -> AttemptCost:
        counted = {"input_tokens": prompt.tokens, "output_tokens": 0}
        return compute_cost(prompt.model, usage.model_copy(update=counted), self.prices)


def count_cached_tokens(terms: PromptCacheSpec | None, repeated: int) -> int:
    """Return how many of the tokens that a prompt repeats its provider can read from its cache.

    `cache_outcomes` counts the same of calls on record, in SQL.
    """
    if terms is None or repeated < terms.minimum:
        return 0
    return repeated - (repeated - terms.minimum) % (terms.step or 1)
