"""The growth of context as CSV, for a spreadsheet: a row for each group, or each call of a session.

What a figure has by name is a column of its own, such as `components.history_tokens`.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from pydantic import JsonValue

from turnlog.client.operations import ClientOperation
from turnlog.contract.call_payloads import (
    CacheUseMetrics,
    CallMetrics,
    GroupMetrics,
    GrowthView,
)
from turnlog.services.cli.client.service_client import ServiceClient
from turnlog.services.cli.views.growth_view import is_listing_calls
from turnlog.services.cli.views.text_format import escape_controls

_BEGINS_OF_FORMULAS: Final = ("=", "+", "-", "@")
"""What a spreadsheet takes a text for a formula by; names in a record may be anybody's."""


async def print_growth_csv(service: ServiceClient, read: ClientOperation[GrowthView]) -> None:
    """Print an answer as CSV on standard output."""
    growth = await service.send(read)
    rows = [
        dict(iterate_cells(each))
        for each in (growth.calls if is_listing_calls(growth) else growth.groups)
    ]
    names = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(sys.stdout, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    sys.stdout.flush()


def iterate_cells(metrics: CallMetrics | GroupMetrics) -> Iterator[tuple[str, str | int | float]]:
    """Yield the cells of a row, each with the name of its column."""
    fields: dict[str, JsonValue] = metrics.model_dump(
        mode="json", exclude={"rules", "prefix_breaks", "caches", "cache"}
    )
    for field, value in fields.items():
        if isinstance(value, dict):
            for name, figure in value.items():
                yield f"{field}.{escape_controls(name)}", _build_cell(figure)
        else:
            yield field, _build_cell(value)
    if isinstance(metrics, GroupMetrics):
        for rule in metrics.rules:
            yield f"rules.{escape_controls(rule.rule)}", rule.tokens
        for broken in metrics.prefix_breaks:
            yield f"prefix_breaks.{escape_controls(broken.layer)}", broken.tokens
        yield from _iterate_cache_cells(metrics.caches)
    elif metrics.cache:
        yield from _iterate_cache_cells((metrics.cache,))


def _iterate_cache_cells(uses: Iterable[CacheUseMetrics]) -> Iterator[tuple[str, int]]:
    """Yield the calls of each outcome, and the tokens and money lost by each cause."""
    sums: Counter[str] = Counter()
    for use in uses:
        sums[f"caches.{use.outcome}"] += use.calls
        if use.cause:
            cause = f"{use.outcome}.{escape_controls(use.cause)}"
            sums[f"caches.{cause}.tokens"] += use.tokens
            if use.cost.micro_dollars is not None:
                sums[f"caches.{cause}.micro_dollars"] += use.cost.micro_dollars
    yield from sums.items()


def _build_cell(value: JsonValue) -> str | int | float:
    """Return a value as a spreadsheet shows it, which would run a text that begins as a formula."""
    if value is None:
        return ""
    if isinstance(value, int | float):
        return value
    text = escape_controls(" ".join(map(str, value)) if isinstance(value, list) else str(value))
    return f"'{text}" if text.startswith(_BEGINS_OF_FORMULAS) else text
