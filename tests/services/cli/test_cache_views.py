"""What `turnlog cache-breaks` and the CSV of growth say of the caches of providers."""

from __future__ import annotations

from tests.services.cli.conftest import RecordedSession, RunCommand
from turnlog.contract.call_payloads import (
    CacheBreak,
    CacheBreakList,
    CacheUseMetrics,
    GroupMetrics,
    PromptSizeMetrics,
)
from turnlog.contract.usage_payloads import CostSum
from turnlog.services.cli.console import create_output_console
from turnlog.services.cli.views.cache_view import render_cache_breaks
from turnlog.services.cli.views.growth_csv import iterate_cells

BROKEN = CacheUseMetrics(
    outcome="broken",
    cause="history\x1b",
    calls=3,
    tokens=1_792,
    cost=CostSum(micro_dollars=2_240),
)

EXPIRED = CacheUseMetrics(
    outcome="missed",
    cause="expired",
    calls=1,
    tokens=640,
    cost=CostSum(micro_dollars=None, unpriced_calls=1),
)


def build_break(lost: CacheUseMetrics) -> CacheBreak:
    return CacheBreak(
        blueprint="assistant",
        version=2,
        lost=lost,
        session="s-1",
        call="9.1",
        prefix_call="8.1",
        model="openai/gpt-4o",
        tokens=768,
    )


def test_causes_are_listed_with_their_price_and_how_to_see_what_changed() -> None:
    console = create_output_console()
    with console.capture() as printed:
        found = CacheBreakList(breaks=(build_break(EXPIRED), build_break(BROKEN)))
        console.print(render_cache_breaks(found), width=120)
    lines = [" ".join(line.split()) for line in printed.get().splitlines()]
    assert lines[1] == "assistant v2 kept no longer 1 640 s-1 9.1 · 768 tokens"
    assert lines[2] == "assistant v2 changed: history␛ 3 1,792 $0.00224 s-1 9.1 · 768 tokens"
    assert lines[-1] == "what changed: turnlog diff s-1 8.1 9.1"


def test_csv_has_the_calls_of_each_outcome_and_what_each_cause_lost() -> None:
    group = GroupMetrics(
        key={},
        calls=4,
        tokens=0,
        prompt_sizes=PromptSizeMetrics(p10=0, p50=0, p95=0),
        components={},
        savings_estimate=0,
        cut_turns=0,
        caches=(BROKEN, EXPIRED),
        cost=CostSum(),
        retrieval_hit_rate=None,
    )
    cells = {name: cell for name, cell in iterate_cells(group) if name.startswith("caches")}
    assert cells == {
        "caches.broken": 3,
        "caches.broken.history␛.tokens": 1_792,
        "caches.broken.history␛.micro_dollars": 2_240,
        "caches.missed": 1,
        "caches.missed.expired.tokens": 640,
    }


def test_command_says_that_no_cache_is_known_to_have_been_lost(
    turnlog: RunCommand, played: RecordedSession
) -> None:
    ran = turnlog("cache-breaks", played.session, *played.here)
    assert (ran.code, "no cache is known to have been lost" in ran.out) == (0, True), ran.err
