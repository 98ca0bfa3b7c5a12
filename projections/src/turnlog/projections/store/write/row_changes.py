"""Changes of rows: built from events without a database, then written in few statements.

A change names its row by natural key and sets values, never differences, so applying it twice has
the same effect as once. Changes of one batch to the same row are merged first. Afterwards no two
changes affect the same row, and they can be written table by table in any order.

For each table and set of columns, one statement is built and compiled, and the rows are sent to the
driver as tuples. SQLAlchemy's own way inspects each value of each row, which costs more than the
database takes to store it.
"""

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

from turnlog.projections.store.schema.read_model_tables import NUL, replace_nul

ColumnValue = str | int | bytes | None

ColumnValues = dict[str, ColumnValue]


@dataclass(frozen=True, slots=True)
class PutRow:
    """Set a row to these values; columns not named become null."""

    table: Table
    key: tuple[ColumnValue, ...]
    values: ColumnValues


@dataclass(frozen=True, slots=True)
class PatchRow:
    """Set these columns of a row; nothing happens if the row does not exist."""

    table: Table
    key: tuple[ColumnValue, ...]
    values: ColumnValues


RowChange = PutRow | PatchRow


def merge_changes(changes: Iterable[RowChange]) -> list[RowChange]:
    """Return equivalent changes with at most one change per row."""
    rows: dict[tuple[Table, tuple[ColumnValue, ...]], RowChange] = {}
    for change in changes:
        place = (change.table, change.key)
        before = rows.get(place)
        rows[place] = _merge_pair(before, change) if before else change
    return list(rows.values())


def _merge_pair(before: RowChange, change: RowChange) -> RowChange:
    if isinstance(change, PutRow):
        return change
    values = {**before.values, **change.values, **_select_first_written(before, change)}
    kind = PutRow if isinstance(before, PutRow) else PatchRow
    return kind(before.table, before.key, values)


def _select_first_written(before: RowChange, change: RowChange) -> ColumnValues:
    """Return what `before` sets in columns that are never changed after their first write."""
    return {
        name: value
        for name in _list_write_once_columns(change.table)
        if name in change.values and (value := before.values.get(name)) is not None
    }


@cache
def _list_write_once_columns(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.c if column.info.get("once"))


_KEY_PREFIX: Final = "key of "
"""Prefix that separates a key parameter from the parameter of a written column."""


@dataclass(frozen=True, slots=True)
class _CompiledStatement:
    sql: str
    columns: tuple[str, ...]
    """The column of each parameter."""


async def write_changes(
    connection: AsyncConnection, build: int, changes: Iterable[RowChange]
) -> None:
    """Write the changes to the rows of one build."""
    ordered = sorted(merge_changes(changes), key=_get_statement_key)
    for (_, _, names), group in groupby(ordered, key=_get_statement_key):
        alike = list(group)
        table = alike[0].table
        patched = names if isinstance(alike[0], PatchRow) else None
        statement = _compile_statement(table, patched, connection.dialect)
        keys = _list_key_columns(table)
        rows = [_build_parameters(statement.columns, keys, build, change) for change in alike]
        await connection.exec_driver_sql(statement.sql, rows)


def _get_statement_key(change: RowChange) -> tuple[str, str, tuple[str, ...]]:
    names = tuple(sorted(change.values)) if isinstance(change, PatchRow) else ()
    return change.table.name, type(change).__name__, names


def _build_parameters(
    places: tuple[str, ...], keys: tuple[str, ...], build: int, change: RowChange
) -> tuple[ColumnValue, ...]:
    found = map({**change.values, **dict(zip(keys, (build, *change.key), strict=True))}.get, places)
    # Hardly any text contains NUL, and testing first costs less than a call per value.
    return tuple([replace_nul(v) if isinstance(v, str) and NUL in v else v for v in found])


# There are only a few dozen statements, and building one takes longer than running it.
@cache
def _compile_statement(
    table: Table, patched: tuple[str, ...] | None, dialect: Dialect
) -> _CompiledStatement:
    made = _build_upsert(table, dialect) if patched is None else _build_update(table, patched)
    compiled = made.compile(dialect=dialect)
    places = compiled.positiontup or ()
    return _CompiledStatement(
        str(compiled), tuple(place.removeprefix(_KEY_PREFIX) for place in places)
    )


def _build_upsert(table: Table, dialect: Dialect) -> Insert:
    # Both dialects have the same upsert syntax, but their classes have no common base.
    insert = sqlite.insert if dialect.name == "sqlite" else postgresql.insert
    row = insert(table)
    names = [column.name for column in table.c]
    rest = {name: row.excluded[name] for name in names if name not in _list_key_columns(table)}
    return row.on_conflict_do_update(index_elements=_list_key_columns(table), set_=rest)


def _build_update(table: Table, names: tuple[str, ...]) -> Update:
    condition = and_(
        *(table.c[key] == bindparam(f"{_KEY_PREFIX}{key}") for key in _list_key_columns(table))
    )
    return (
        update(table)
        .where(condition)
        .values({name: _build_new_value(table.c[name]) for name in names})
    )


@cache
def _list_key_columns(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.primary_key.columns)


def _build_new_value(column: Column[Any]) -> ColumnElement[Any]:
    value = bindparam(column.name, type_=column.type)
    return func.coalesce(column, value) if column.info.get("once") else value
