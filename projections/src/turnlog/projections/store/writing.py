from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Dialect, Table, and_, bindparam, func, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.sql.dml import Insert, Update

from turnlog.projections.store.changes import Change, Patch, Value, merged
from turnlog.projections.store.texts import NUL, storable

_KEY: Final = "key of "
"""Prefix that separates a key parameter from the parameter of a written column."""


@dataclass(frozen=True, slots=True)
class _Statement:
    sql: str
    places: tuple[str, ...]
    """The column of each parameter."""


async def write(connection: AsyncConnection, build: int, changes: Iterable[Change]) -> None:
    """Write the changes to the rows of one build."""
    ordered = sorted(merged(changes), key=_likeness)
    for (_, _, names), group in groupby(ordered, key=_likeness):
        alike = list(group)
        table = alike[0].table
        patched = names if isinstance(alike[0], Patch) else None
        statement = _statement(table, patched, connection.dialect)
        keys = _keys(table)
        rows = [_row(statement.places, keys, build, change) for change in alike]
        await connection.exec_driver_sql(statement.sql, rows)


def _likeness(change: Change) -> tuple[str, str, tuple[str, ...]]:
    names = tuple(sorted(change.values)) if isinstance(change, Patch) else ()
    return change.table.name, type(change).__name__, names


def _row(
    places: tuple[str, ...], keys: tuple[str, ...], build: int, change: Change
) -> tuple[Value, ...]:
    found = map({**change.values, **dict(zip(keys, (build, *change.key), strict=True))}.get, places)
    # Hardly any text contains NUL, and testing first costs less than a call per value.
    return tuple([storable(v) if isinstance(v, str) and NUL in v else v for v in found])


# There are only a few dozen statements, and building one takes longer than running it.
@cache
def _statement(table: Table, patched: tuple[str, ...] | None, dialect: Dialect) -> _Statement:
    made = _put(table, dialect) if patched is None else _patch(table, patched)
    compiled = made.compile(dialect=dialect)
    places = compiled.positiontup or ()
    return _Statement(str(compiled), tuple(place.removeprefix(_KEY) for place in places))


def _put(table: Table, dialect: Dialect) -> Insert:
    # Both dialects have the same upsert syntax, but their classes have no common base.
    insert = sqlite.insert if dialect.name == "sqlite" else postgresql.insert
    row = insert(table)
    names = [column.name for column in table.c]
    rest = {name: row.excluded[name] for name in names if name not in _keys(table)}
    return row.on_conflict_do_update(index_elements=_keys(table), set_=rest)


def _patch(table: Table, names: tuple[str, ...]) -> Update:
    where = and_(*(table.c[key] == bindparam(f"{_KEY}{key}") for key in _keys(table)))
    return update(table).where(where).values({name: _new(table.c[name]) for name in names})


@cache
def _keys(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.primary_key.columns)


def _new(column: Column[Any]) -> ColumnElement[Any]:
    value = bindparam(column.name, type_=column.type)
    return func.coalesce(column, value) if column.info.get("once") else value
