"""What all queries share: the active build, and columns by row type."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Table, and_, select, true

from turnlog.projections.store.checkpoints import PROJECTION
from turnlog.projections.store.tables import PROJECTIONS

SEEN: Final = (
    select(PROJECTIONS.c.build)
    .where(PROJECTIONS.c.name == PROJECTION, PROJECTIONS.c.active == true())
    .scalar_subquery()
)
"""The active build, looked up within the statement that reads its rows."""


def of_tenant(table: Table, tenant: str) -> ColumnElement[bool]:
    """Match the rows of a tenant."""
    return and_(table.c.build == SEEN, table.c.tenant == tenant)


def of_session(table: Table, tenant: str, session: str) -> ColumnElement[bool]:
    """Match the rows of a session."""
    return and_(of_tenant(table, tenant), table.c.session == session)


def columns_of(table: Table, shape: type) -> list[Column[Any]]:
    """Return the columns of a table that a row type has as fields."""
    return [table.c[field.name] for field in fields(shape) if field.name in table.c]
