"""The columns of a query over attempts from which a `CostTotal` or a `UsageTotal` is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Final

from sqlalchemy import ColumnElement, FromClause, and_, distinct, func

from turnlog.projections.session_views.cost_totals import GUESSED_PRICES, CostTotal
from turnlog.projections.store.read.row_filters import sum_column
from turnlog.projections.store.read.row_types import UsageTotal
from turnlog.projections.store.schema.read_model_tables import ATTEMPTS

_COLUMNS: Final = ATTEMPTS.c

IS_GUESSED: Final = _COLUMNS.price.in_(GUESSED_PRICES)


def is_unpriced(attempts: FromClause) -> ColumnElement[bool]:
    """Match the attempts that have ended and whose price is not known."""
    return and_(attempts.c.ended_at.is_not(None), attempts.c.micro_dollars.is_(None))


COST_COLUMNS: Final[Mapping[str, ColumnElement[int]]] = {
    "micro_dollars": sum_column(_COLUMNS.micro_dollars),
    "priced_attempts": func.count(_COLUMNS.micro_dollars),
    "guessed_attempts": func.count().filter(IS_GUESSED),
    "unpriced_calls": func.count(distinct(_COLUMNS.session + "/" + _COLUMNS.call)).filter(
        is_unpriced(ATTEMPTS)
    ),
}


def build_cost_sum(figures: Mapping[str, int]) -> CostTotal:
    """Build the sum of a group of attempts from its `COST_COLUMNS`."""
    return CostTotal(
        figures["micro_dollars"] if figures["priced_attempts"] else None,
        figures["guessed_attempts"] > 0,
        figures["unpriced_calls"],
    )


USAGE_COLUMNS: Final[Mapping[str, ColumnElement[int]]] = {
    "input_tokens": sum_column(_COLUMNS.input_tokens),
    "output_tokens": sum_column(_COLUMNS.output_tokens),
    "total_tokens": sum_column(_COLUMNS.input_tokens) + sum_column(_COLUMNS.output_tokens),
    "unknown_attempts": func.count().filter(
        and_(_COLUMNS.ended_at.is_not(None), _COLUMNS.input_tokens.is_(None))
    ),
    **COST_COLUMNS,
}


def build_usage(figures: Mapping[str, int]) -> UsageTotal:
    """Build what a group of attempts took from its `USAGE_COLUMNS`."""
    known = {each.name: figures[each.name] for each in fields(UsageTotal) if each.name in figures}
    return UsageTotal(**known, cost=build_cost_sum(figures))
