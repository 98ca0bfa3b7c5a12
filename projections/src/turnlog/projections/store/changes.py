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

from sqlalchemy import Table

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
