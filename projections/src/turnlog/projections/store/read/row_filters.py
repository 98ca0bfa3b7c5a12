"""What all queries share: the active build, columns by row type, and sums."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    FromClause,
    Label,
    RowMapping,
    Table,
    and_,
    cast,
    func,
    select,
    true,
)

from turnlog.projections.store.schema.read_model_tables import PROJECTIONS
from turnlog.projections.store.write.projection_positions import SESSIONS_PROJECTION

ACTIVE_BUILD: Final = (
    select(PROJECTIONS.c.build)
    .where(PROJECTIONS.c.name == SESSIONS_PROJECTION, PROJECTIONS.c.active == true())
    .scalar_subquery()
)
"""The active build, looked up within the statement that reads its rows."""


def match_tenant(table: FromClause, tenant: str) -> ColumnElement[bool]:
    """Match the rows of a tenant."""
    return and_(table.c.build == ACTIVE_BUILD, table.c.tenant == tenant)


def match_session(table: Table, tenant: str, session: str) -> ColumnElement[bool]:
    """Match the rows of a session."""
    return and_(match_tenant(table, tenant), table.c.session == session)


def select_columns(table: Table, shape: type) -> list[Column[Any]]:
    """Return the columns of a table that a row type has as fields."""
    return [table.c[field.name] for field in fields(shape) if field.name in table.c]


def sum_column(column: ColumnElement[int]) -> ColumnElement[int]:
    """Sum the known figures of a column of integers; 0 if there is none."""
    # Postgres returns a decimal sum.
    return cast(func.coalesce(func.sum(column), 0), BigInteger)


def label_columns(columns: Mapping[str, ColumnElement[int]]) -> list[Label[int]]:
    """Label columns by the names that `read_figures` finds them under."""
    return [column.label(name) for name, column in columns.items()]


def read_figures(row: Mapping[str, Any] | RowMapping, names: Iterable[str]) -> dict[str, int]:
    """Return the figures of these names from a row."""
    return {name: row[name] for name in names}
