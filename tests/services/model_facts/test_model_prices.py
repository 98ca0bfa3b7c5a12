"""The cost of an attempt, by litellm's price table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from turnlog.events.errors import Refused
from turnlog.events.model.attempt_figures import TokenUsage
from turnlog.services.model_facts.model_prices import ModelPrices, PriceTable, compute_cost

MILLION = TokenUsage(known="reported", input_tokens=1_000_000, output_tokens=1_000_000)

SONNET = "anthropic.claude-3-5-sonnet-20241022-v2:0"

ARN = "arn:aws:bedrock:eu-west-3:123456789012:"


def build_price_table(**entry: object) -> PriceTable:
    return PriceTable("test-1", {"heron": entry})


def build_usage(tokens: int, cached: int = 0) -> TokenUsage:
    return TokenUsage(known="reported", input_tokens=tokens, output_tokens=0, cached_tokens=cached)


@pytest.mark.parametrize(
    ("model", "micro_dollars", "source"),
    [
        ("gpt-4o", 12_500_000, "exact"),
        ("openai/gpt-4o", 12_500_000, "exact"),
        (SONNET, 18_000_000, "exact"),
        (f"bedrock/{SONNET}", 18_000_000, "exact"),
        (f"{ARN}foundation-model/{SONNET}", 18_000_000, "normalised"),
        (f"bedrock/{ARN}inference-profile/eu.{SONNET}", 18_000_000, "normalised"),
        (f"bedrock/eu-west-3/{SONNET}", 18_000_000, "normalised"),
        (f"global.{SONNET}", 18_000_000, "normalised"),
        ("no-such-model", 500_000, "fallback"),
        ("hosted_vllm/gpt-4o", 500_000, "fallback"),
        ("open/gpt-4o", 500_000, "fallback"),
        ("/gpt-4o", 500_000, "fallback"),
    ],
)
async def test_model_price_falls_back_from_full_name_to_regionless_name_to_estimate(
    model: str, micro_dollars: int, source: str
) -> None:
    prices = await ModelPrices().load_table()
    cost = compute_cost(model, MILLION, prices)
    assert (cost.micro_dollars, cost.price) == (micro_dollars, source)
    assert cost.table == prices.version
    assert cost.table.startswith("litellm-1.")


async def test_scripted_model_is_free_unless_the_operator_sets_a_price(tmp_path: Path) -> None:
    cost = compute_cost("scripted/demo", MILLION, await ModelPrices().load_table())
    assert (cost.micro_dollars, cost.price, cost.table) == (0, "exact", "none")
    file = tmp_path / "prices.json"
    file.write_text('{"scripted/demo": {"input": 1, "output": 2}}')
    cost = compute_cost("scripted/demo", MILLION, await ModelPrices(file).load_table())
    assert (cost.micro_dollars, cost.price) == (3_000_000, "exact")


@pytest.mark.parametrize(
    ("tokens", "cached", "micro_dollars"),
    [(200_000, 0, 200_000), (200_001, 1, 400_001), (300_000, 300_000, 300_000)],
)
def test_long_prompt_has_the_price_of_its_token_threshold(
    tokens: int, cached: int, micro_dollars: int
) -> None:
    steps = {f"input_cost_per_token_above_{step}k_tokens": step / 1e8 for step in (200, 400)}
    prices = build_price_table(
        input_cost_per_token=1e-6,
        output_cost_per_token=1e-6,
        cache_read_input_token_cost=0.5e-6,
        cache_read_input_token_cost_above_200k_tokens=1e-6,
        **steps,
    )
    cost = compute_cost("heron", build_usage(tokens, cached), prices)
    assert cost.micro_dollars == micro_dollars


def test_cached_tokens_use_their_own_price_if_the_table_has_one() -> None:
    usage = build_usage(1000, cached=400)
    prices = {"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6}
    assert compute_cost("heron", usage, build_price_table(**prices)).micro_dollars == 1000
    cheap = build_price_table(**prices, cache_read_input_token_cost=1e-7)
    assert compute_cost("heron", usage, cheap).micro_dollars == 640


def test_tokens_written_into_a_cache_have_their_own_price() -> None:
    usage = build_usage(1000, cached=400).model_copy(update={"cache_write_tokens": 500})
    prices = {"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6}
    assert compute_cost("heron", usage, build_price_table(**prices)).micro_dollars == 1000
    own = build_price_table(
        **prices,
        cache_read_input_token_cost=1e-7,
        cache_creation_input_token_cost=1.25e-6,
    )
    assert compute_cost("heron", usage, own).micro_dollars == 100 + 40 + 625


def test_reasoning_tokens_use_their_own_price_if_the_table_has_one() -> None:
    usage = build_usage(0).model_copy(update={"output_tokens": 1000, "reasoning_tokens": 400})
    prices = {"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6}
    assert compute_cost("heron", usage, build_price_table(**prices)).micro_dollars == 1000
    dear = build_price_table(**prices, output_cost_per_reasoning_token=3e-6)
    assert compute_cost("heron", usage, dear).micro_dollars == 600 + 1200


def test_reasoning_tokens_of_a_long_prompt_have_the_price_of_its_threshold() -> None:
    usage = build_usage(200_001).model_copy(update={"output_tokens": 10, "reasoning_tokens": 10})
    prices = {"input_cost_per_token": 0.0, "output_cost_per_token": 1e-6}
    steps = {
        "input_cost_per_token_above_200k_tokens": 0.0,
        "output_cost_per_token_above_200k_tokens": 5e-6,
    }
    table = build_price_table(**prices, output_cost_per_reasoning_token=1e-6, **steps)
    assert compute_cost("heron", usage, table).micro_dollars == 50


@pytest.mark.parametrize(("tokens", "micro_dollars"), [(4, 0), (5, 1), (14, 1), (15, 2), (25, 3)])
def test_half_a_micro_dollar_is_rounded_up(tokens: int, micro_dollars: int) -> None:
    prices = build_price_table(input_cost_per_token=1e-7, output_cost_per_token=0.0)
    cost = compute_cost("heron", build_usage(tokens), prices)
    assert (cost.micro_dollars, cost.price, cost.table) == (micro_dollars, "exact", "test-1")


def test_table_entry_without_token_prices_uses_the_fallback_price() -> None:
    assert (
        compute_cost("heron", MILLION, build_price_table(input_cost_per_pixel=1)).price
        == "fallback"
    )


def test_unknown_token_usage_has_unknown_cost_instead_of_zero() -> None:
    cost = compute_cost("heron", TokenUsage(known="unknown"), build_price_table())
    assert (cost.micro_dollars, cost.price) == (None, "unknown")


def test_prices_are_read_without_importing_litellm() -> None:
    program = (
        "import asyncio, sys\n"
        "from turnlog.services.model_facts.model_prices import ModelPrices\n"
        "assert asyncio.run(ModelPrices().load_table()).entries\n"
        "sys.exit('litellm' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


async def test_configured_prices_override_the_table_and_change_its_version(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    file.write_text(
        '{"openai/ours": {"input": 0.6, "output": 2.4, "cached": 0.06},'
        ' "gpt-4o": {"input": 1, "output": 0}}'
    )
    prices = await ModelPrices(file).load_table()
    shipped = await ModelPrices().load_table()
    cost = compute_cost("openai/ours", MILLION, prices)
    assert (cost.micro_dollars, cost.price) == (3_000_000, "exact")
    assert cost.table.startswith(f"{shipped.version}+own-")
    assert compute_cost("openai/ours", build_usage(1000, cached=1000), prices).micro_dollars == 60
    assert compute_cost("gpt-4o", MILLION, prices).micro_dollars == 1_000_000
    assert compute_cost("gpt-4o-mini", MILLION, prices).micro_dollars == 750_000
    file.write_text('{"gpt-4o": {"input": 2, "output": 0}}')
    assert (await ModelPrices(file).load_table()).version != prices.version


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "No such file"),
        ("{", "Invalid JSON"),
        ('{"heron": {"input": -1, "output": 1}}', "heron input"),
        ('{"heron": {"input": 1}}', "heron output"),
        ('{"heron": {"input": 1, "output": 1, "ouput": 1}}', "heron ouput"),
    ],
)
def test_invalid_configured_prices_are_refused_with_file_model_and_field(
    tmp_path: Path, text: str | None, expected: str
) -> None:
    file = tmp_path / "prices.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(Refused) as refused:
        ModelPrices(file)
    assert refused.value.field == "TURNLOG_PRICES"
    assert f"{file}: " in refused.value.detail
    assert expected in refused.value.detail
