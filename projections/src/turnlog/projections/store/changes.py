"""Changes to rows, and how many of them become few statements.

A change names its row by natural key and gives values, never differences, so making it twice is
the same as making it once. Changes of one batch to one row are merged first; after that no two
touch the same row, and they can be written table by table in any order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from typing import Any

from sqlalchemy import Column, ColumnElement, Executable, Table, and_, bindparam, func, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from turnlog.projections.store.texts import storable

Value = str | int | bytes | None
Values = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Put:
    """A row stands with these values from here on; columns not named are null."""

    table: Table
    key: tuple[Value, ...]
    values: Values


@dataclass(frozen=True, slots=True)
class Patch:
    """These columns of a row have these values from here on; no row, no change."""

    table: Table
    key: tuple[Value, ...]
    values: Values


Change = Put | Patch


def merged(changes: Iterable[Change]) -> list[Change]:
    """Give the same changes with each row in at most one of them."""
    rows: dict[tuple[str, tuple[Value, ...]], Change] = {}
    for change in changes:
        place = (change.table.name, change.key)
        before = rows.get(place)
        rows[place] = _after(before, change) if before else change
    return list(rows.values())


def _after(before: Change, change: Change) -> Change:
    if isinstance(change, Put):
        return change
    fixed = {
        name: value
        for name in change.values
        if change.table.c[name].info.get("once") and (value := before.values.get(name)) is not None
    }
    values = {**before.values, **change.values, **fixed}
    return replace(before, values=values)


async def write(connection: AsyncConnection, build: int, changes: Iterable[Change]) -> None:
    """Make the changes to the rows of one build."""
    ordered = sorted(merged(changes), key=_likeness)
    for _, group in groupby(ordered, key=_likeness):
        alike = list(group)
        statement = _statement(alike[0], connection.dialect.name)
        await connection.execute(statement, [_parameters(build, change) for change in alike])


def _likeness(change: Change) -> tuple[str, str, tuple[str, ...]]:
    names = tuple(sorted(change.values)) if isinstance(change, Patch) else ()
    return change.table.name, type(change).__name__, names


def _statement(change: Change, dialect: str) -> Executable:
    if isinstance(change, Patch):
        return _patch(change.table, _likeness(change)[2])
    return _put(change.table, dialect)


# There are a few dozen statements, and building one takes longer than running it.
@cache
def _put(table: Table, dialect: str) -> Executable:
    # Two dialects spell an upsert alike, by two classes that have nothing in common.
    insert = sqlite.insert if dialect == "sqlite" else postgresql.insert
    row = insert(table)
    keys = _keys(table)
    names = [column.name for column in table.c if column.name not in keys]
    rest = {name: row.excluded[name] for name in names}
    return row.on_conflict_do_update(index_elements=keys, set_=rest)


@cache
def _patch(table: Table, names: tuple[str, ...]) -> Executable:
    where = and_(*(table.c[key] == bindparam(f"at_{key}") for key in _keys(table)))
    return update(table).where(where).values({name: _new(table.c[name]) for name in names})


def _keys(table: Table) -> list[str]:
    return [column.name for column in table.primary_key.columns]


def _new(column: Column[Any]) -> ColumnElement[Any]:
    value = bindparam(column.name, type_=column.type)
    return func.coalesce(column, value) if column.info.get("once") else value


def _parameters(build: int, change: Change) -> Values:
    key = dict(zip(_keys(change.table), (build, *change.key), strict=True))
    if isinstance(change, Patch):
        found = {**{f"at_{name}": value for name, value in key.items()}, **change.values}
    else:
        nothing: Values = dict.fromkeys(change.table.c.keys())
        found = {**nothing, **key, **change.values}
    return {
        name: storable(value) if isinstance(value, str) else value for name, value in found.items()
    }
