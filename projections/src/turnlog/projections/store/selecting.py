"""What all questions have in common: the build that readers see, and rows by the shape wanted."""

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
"""The build that readers see, looked up within the very statement that reads its rows."""


def of_tenant(table: Table, tenant: str) -> ColumnElement[bool]:
    """Match a tenant's rows."""
    return and_(table.c.build == SEEN, table.c.tenant == tenant)


def of_session(table: Table, tenant: str, session: str) -> ColumnElement[bool]:
    """Match a session's rows."""
    return and_(of_tenant(table, tenant), table.c.session == session)


def columns_of(table: Table, shape: type) -> list[Column[Any]]:
    """Give those columns of a table that a row shape has."""
    return [table.c[field.name] for field in fields(shape) if field.name in table.c]
