"""What an attempt cost, in millionths of a dollar.

A model is looked up by its exact name, then by its name without the ARN and region that Bedrock
puts before it; a model in no table costs a flat guess. Which of the three it was, and the version
of the table, are recorded with the amount, so that a cost can be judged later and never changes
with the table. Scripted models cost nothing. Where the price depends on the length of the prompt,
it is that of the step which the prompt has reached.

The table is a file that litellm ships; it is read without importing litellm, which takes seconds.
An installation may have a file of its own prices, which come before those of litellm: a JSON object
of model names, each with dollars for a million tokens, such as
`{"openai/ours": {"input": 0.6, "output": 2.4}}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from turnlog.events.content import compute_digest
from turnlog.events.errors import Refused
from turnlog.events.model.attempt_figures import AttemptCost, TokenUsage
from turnlog.services.platform.concurrency import run_in_thread

PriceSource = Literal["exact", "normalised", "fallback"]

_ARN: Final = re.compile(r"arn:[^/]*/")
"""Matches `arn:aws:bedrock:us-east-1:123456789012:inference-profile/`."""

_REGION: Final = re.compile(
    r"(?<![^/])(?:[a-z]{2}(?:-gov)?-[a-z]+-\d/|(?:us|us-gov|eu|apac|au|ca|jp|global)\.)"
)
"""Matches a path step such as `us-east-1/`, or the prefix of an inference profile such as `us.`."""

_STEP: Final = re.compile(r"input_cost_per_token(_above_(\d+)k_tokens)")
"""Matches the key of the price of prompts that are longer than some thousands of tokens."""

_REASONING_KEY: Final = "output_cost_per_reasoning_token"

_MILLION: Final = 1_000_000

_PRICE_FILE: Final = "litellm/model_prices_and_context_window_backup.json"


@dataclass(frozen=True, slots=True)
class PriceTable:
    """litellm's entries by model name: dollars a token in `input_cost_per_token` and others."""

    version: str
    entries: Mapping[str, Mapping[str, object]]
    own: Mapping[str, TokenRates] = field(default_factory=dict[str, "TokenRates"])
    """The installation's own prices by model name; they come first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRates:
    """Dollars a token."""

    uncached: Decimal
    cached: Decimal
    written: Decimal
    """Of tokens that are put into a cache."""
    output: Decimal
    reasoning: Decimal | None = None
    """Of output tokens that went into reasoning; None if they cost what the others do."""


class OwnPrice(BaseModel):
    """The price of one model in a file of own prices, in dollars for a million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: Annotated[Decimal, Field(ge=0)]
    output: Annotated[Decimal, Field(ge=0)]
    cached: Annotated[Decimal, Field(ge=0)] | None = None
    """Of input tokens that the provider had cached; by default that of `input`."""
    cache_write: Annotated[Decimal, Field(ge=0)] | None = None
    """Of input tokens that the provider put into its cache; by default that of `input`."""

    @property
    def rates(self) -> TokenRates:
        """The price of one token."""
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.cache_write is None else self.cache_write
        return TokenRates(
            uncached=self.input / _MILLION,
            cached=cached / _MILLION,
            written=written / _MILLION,
            output=self.output / _MILLION,
        )


_OWN_PRICES: Final = TypeAdapter(dict[Annotated[str, Field(min_length=1)], OwnPrice])


FREE_PROVIDERS: Final = ("scripted/",)
"""Prefixes of the names of free models."""

NO_TABLE: Final = "none"
"""The table of a cost that follows from no table."""

FALLBACK_RATES: Final = TokenRates(
    uncached=Decimal("0.10") / _MILLION,
    cached=Decimal("0.10") / _MILLION,
    written=Decimal("0.10") / _MILLION,
    output=Decimal("0.40") / _MILLION,
)


class ModelPrices:
    """The price table that litellm ships, read when it is first used, behind the own prices.

    Raises `Refused` with `bad-setting` when the file of own prices cannot be used.
    """

    def __init__(self, own_file: Path | None = None) -> None:
        self._own = _read_own_prices(own_file) if own_file else None
        self._table: PriceTable | None = None

    async def load_table(self) -> PriceTable:
        if self._table is None:
            shipped = await run_in_thread(read_shipped_table)
            self._table = (
                replace(
                    shipped, version=f"{shipped.version}+{self._own.version}", own=self._own.own
                )
                if self._own
                else shipped
            )
        return self._table


def _read_own_prices(file: Path) -> PriceTable:
    """Read a file of own prices; its version is the beginning of the file's digest."""
    try:
        data = file.read_bytes()
        prices = _OWN_PRICES.validate_json(data)
    except OSError as error:
        raise _create_refusal(f"{file}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = " ".join(map(str, first["loc"]))
        raise _create_refusal(f"{file}: {where}: {first['msg']}") from None
    digest = compute_digest(data).partition(":")[2]
    own = {model: price.rates for model, price in prices.items()}
    return PriceTable(f"own-{digest[:12]}", {}, own)


def _create_refusal(detail: str) -> Refused:
    fix = 'write it as {"MODEL": {"input": DOLLARS, "output": DOLLARS}}, for a million tokens'
    return Refused("bad-setting", detail, field="TURNLOG_PRICES", fix=fix)


@cache
def read_shipped_table() -> PriceTable:
    """Read the table of models that litellm ships, once a process; takes about 20 milliseconds."""
    litellm = distribution("litellm")
    entries = json.loads(Path(str(litellm.locate_file(_PRICE_FILE))).read_bytes())
    return PriceTable(f"litellm-{litellm.version}", entries)


def compute_cost(model: str, usage: TokenUsage, table: PriceTable) -> AttemptCost:
    """Return the cost of tokens, rounded half up at the end; unknown tokens have no price."""
    if usage.input_tokens is None or usage.output_tokens is None:
        return AttemptCost(price="unknown", table=table.version)
    if model.startswith(FREE_PROVIDERS) and model not in table.own:
        return AttemptCost(micro_dollars=0, price="exact", table=NO_TABLE)
    rates, source = _find_rates(model, usage.input_tokens, table)
    fresh = max(usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens, 0)
    reasoned = min(usage.reasoning_tokens or 0, usage.output_tokens)
    reasoning_rate = rates.output if rates.reasoning is None else rates.reasoning
    dollars = (
        fresh * rates.uncached
        + usage.cached_tokens * rates.cached
        + usage.cache_write_tokens * rates.written
        + (usage.output_tokens - reasoned) * rates.output
        + reasoned * reasoning_rate
    )
    micro_dollars = (dollars * _MILLION).to_integral_value(ROUND_HALF_UP)
    return AttemptCost(micro_dollars=int(micro_dollars), price=source, table=table.version)


def compute_cache_saving(model: str, usage: TokenUsage, table: PriceTable) -> int | None:
    """Return what a million tokens cost less where the provider has them in its cache.

    In millionths of a dollar; None if the price of the model is not known. What is not in the cache
    of a provider that takes money for writing it is written again.
    """
    rates, source = _find_rates(model, usage.input_tokens or 0, table)
    if source == "fallback":
        return None
    otherwise = rates.written if usage.cache_write_tokens else rates.uncached
    saved = (otherwise - rates.cached) * _MILLION * _MILLION
    return max(int(saved.to_integral_value(ROUND_HALF_UP)), 0)


def _find_rates(model: str, input_tokens: int, table: PriceTable) -> tuple[TokenRates, PriceSource]:
    if exact := _find_entry(model, input_tokens, table):
        return exact, "exact"
    if normalised := _find_entry(_REGION.sub("", _ARN.sub("", model)), input_tokens, table):
        return normalised, "normalised"
    return FALLBACK_RATES, "fallback"


def _find_entry(name: str, input_tokens: int, table: PriceTable) -> TokenRates | None:
    if name in table.own:
        return table.own[name]
    entry = find_model_entry(name, table)
    return _parse_rates(entry, input_tokens) if entry else None


def find_model_entry(name: str, table: PriceTable) -> Mapping[str, object] | None:
    """Return litellm's entry of a model; `openai/gpt-4o` also finds OpenAI's own `gpt-4o`.

    So does `openai/responses/gpt-4o`, by which litellm calls the same model over another protocol.
    """
    name = name.replace("/responses/", "/", 1)
    if name in table.entries:
        return table.entries[name]
    provider, _, rest = name.partition("/")
    entry = table.entries.get(rest, {})
    # `bedrock_converse` and `vertex_ai-language-models` are names of `bedrock` and `vertex_ai`.
    is_same = re.match(rf"{re.escape(provider)}(?![^_-])", str(entry.get("litellm_provider", "")))
    return entry if provider and is_same else None


def _parse_rates(entry: Mapping[str, object], input_tokens: int) -> TokenRates | None:
    fresh = _parse_dollars(entry, "input_cost_per_token")
    output = _parse_dollars(entry, "output_cost_per_token")
    if fresh is None or output is None:
        return None
    cached = _parse_dollars(entry, "cache_read_input_token_cost")
    written = _parse_dollars(entry, "cache_creation_input_token_cost")
    rates = TokenRates(
        uncached=fresh,
        cached=fresh if cached is None else cached,
        written=fresh if written is None else written,
        output=output,
        reasoning=_parse_dollars(entry, _REASONING_KEY),
    )
    step = _find_step(entry, input_tokens)
    return _parse_step(entry, step, rates) if step else rates


def _find_step(entry: Mapping[str, object], input_tokens: int) -> str | None:
    """Return the end of the keys with the prices of a prompt of this length; None for a short one.

    It is the highest step that the prompt has passed: `_above_200k_tokens`.
    """
    steps = (found for key in entry if (found := _STEP.fullmatch(key)))
    passed = {int(step[2]): step[1] for step in steps if input_tokens > int(step[2]) * 1000}
    return passed[max(passed)] if passed else None


def _parse_step(entry: Mapping[str, object], step: str, below: TokenRates) -> TokenRates:
    """Return the prices of a step; what the table has none for is as `below`."""
    fresh = _parse_dollars(entry, f"input_cost_per_token{step}")
    cached = _parse_dollars(entry, f"cache_read_input_token_cost{step}")
    output = _parse_dollars(entry, f"output_cost_per_token{step}")
    written = _parse_dollars(entry, f"cache_creation_input_token_cost{step}")
    reasoning = _parse_dollars(entry, f"{_REASONING_KEY}{step}")
    return TokenRates(
        uncached=below.uncached if fresh is None else fresh,
        cached=below.cached if cached is None else cached,
        written=below.written if written is None else written,
        output=below.output if output is None else output,
        reasoning=below.reasoning if output is None else reasoning,
    )


def _parse_dollars(entry: Mapping[str, object], key: str) -> Decimal | None:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # The shortest text of the float is the number that the author of the table wrote.
    return Decimal(repr(value))
