"""The columns of a query over attempts from which a `CostSum` is built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlalchemy import ColumnElement, and_, distinct, func

from turnlog.projections.read_models.call_costs import GUESSED_PRICES, CostSum
from turnlog.projections.store.read.row_filters import sum_column
from turnlog.projections.store.schema.read_model_tables import ATTEMPTS

_COLUMNS: Final = ATTEMPTS.c

IS_GUESSED: Final = _COLUMNS.price.in_(GUESSED_PRICES)

IS_UNPRICED: Final = and_(_COLUMNS.ended_at.is_not(None), _COLUMNS.micro_dollars.is_(None))

COST_COLUMNS: Final[Mapping[str, ColumnElement[int]]] = {
    "micro_dollars": sum_column(_COLUMNS.micro_dollars),
    "priced_attempts": func.count(_COLUMNS.micro_dollars),
    "guessed_attempts": func.count().filter(IS_GUESSED),
    "unpriced_calls": func.count(distinct(_COLUMNS.session + "/" + _COLUMNS.call)).filter(
        IS_UNPRICED
    ),
}


def build_cost_sum(figures: Mapping[str, int]) -> CostSum:
    """Build the sum of a group of attempts from its `COST_COLUMNS`."""
    return CostSum(
        figures["micro_dollars"] if figures["priced_attempts"] else None,
        figures["guessed_attempts"] > 0,
        figures["unpriced_calls"],
    )
