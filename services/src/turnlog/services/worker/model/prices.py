"""What an attempt cost, in millionths of a dollar.

A model is looked up by its exact name, then by its name without the ARN and the region that Bedrock
puts before it; a model in no table costs a flat guess. Which of the three it was, and which version
of the table, goes with the amount, so that a recorded cost can be judged later. Prices that depend
on the length of the prompt are taken at their lowest step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Literal

from turnlog.services.worker.model.exchange import Usage

Source = Literal["exact", "normalised", "fallback"]

_ARN = re.compile(r"arn:[^/]*/")
"""`arn:aws:bedrock:us-east-1:123456789012:inference-profile/`"""
_REGION = re.compile(
    r"(?<![^/])(?:[a-z]{2}(?:-gov)?-[a-z]+-\d/|(?:us|us-gov|eu|apac|au|ca|jp|global)\.)"
)
"""A step of the path such as `us-east-1/`, or the prefix of an inference profile such as `us.`"""
_MICRO = 1_000_000


@dataclass(frozen=True, slots=True)
class PriceTable:
    """Entries as litellm writes them: dollars a token under `input_cost_per_token` and its like."""

    version: str
    entries: Mapping[str, Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Cost:
    micro_dollars: int
    source: Source
    table: str


@dataclass(frozen=True, slots=True)
class Rates:
    """Dollars a token."""

    fresh: Decimal
    cached: Decimal
    output: Decimal


FALLBACK = Rates(Decimal("0.10") / _MICRO, Decimal("0.10") / _MICRO, Decimal("0.40") / _MICRO)


def price(model: str, usage: Usage, table: PriceTable) -> Cost:
    """The cost of one attempt, rounded half up once, at the end."""
    rates, source = _rates(model, table)
    fresh = max(usage.input_tokens - usage.cached_input_tokens, 0)
    dollars = (
        fresh * rates.fresh
        + usage.cached_input_tokens * rates.cached
        + usage.output_tokens * rates.output
    )
    micro_dollars = (dollars * _MICRO).to_integral_value(ROUND_HALF_UP)
    return Cost(int(micro_dollars), source, table.version)


def _rates(model: str, table: PriceTable) -> tuple[Rates, Source]:
    if exact := _entry(model, table):
        return exact, "exact"
    if normalised := _entry(_REGION.sub("", _ARN.sub("", model)), table):
        return normalised, "normalised"
    return FALLBACK, "fallback"


def _entry(name: str, table: PriceTable) -> Rates | None:
    """An entry of that name, or, for `openai/gpt-4o`, the entry `gpt-4o` if it is OpenAI's own."""
    if name in table.entries:
        return _read(table.entries[name])
    provider, _, rest = name.partition("/")
    entry = table.entries.get(rest, {})
    return _read(entry) if str(entry.get("litellm_provider", "")).startswith(provider) else None


def _read(entry: Mapping[str, object]) -> Rates | None:
    fresh = _dollars(entry, "input_cost_per_token")
    output = _dollars(entry, "output_cost_per_token")
    if fresh is None or output is None:
        return None
    cached = _dollars(entry, "cache_read_input_token_cost")
    return Rates(fresh, fresh if cached is None else cached, output)


def _dollars(entry: Mapping[str, object], key: str) -> Decimal | None:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # The shortest text of the float is the number its author wrote.
    return Decimal(repr(value))
