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

Value = str | int | bytes | None
Values = dict[str, Value]


@dataclass(frozen=True, slots=True)
class Put:
    """Set a row to these values; columns not named become null."""

    table: Table
    key: tuple[Value, ...]
    values: Values


@dataclass(frozen=True, slots=True)
class Patch:
    """Set these columns of a row; nothing happens if the row does not exist."""

    table: Table
    key: tuple[Value, ...]
    values: Values


Change = Put | Patch


def merged(changes: Iterable[Change]) -> list[Change]:
    """Return equivalent changes with at most one change per row."""
    rows: dict[tuple[Table, tuple[Value, ...]], Change] = {}
    for change in changes:
        place = (change.table, change.key)
        before = rows.get(place)
        rows[place] = _after(before, change) if before else change
    return list(rows.values())


def _after(before: Change, change: Change) -> Change:
    if isinstance(change, Put):
        return change
    values = {**before.values, **change.values, **_fixed(before, change)}
    kind = Put if isinstance(before, Put) else Patch
    return kind(before.table, before.key, values)


def _fixed(before: Change, change: Change) -> Values:
    """Return what `before` sets in columns that are never changed after their first write."""
    return {
        name: value
        for name in _once(change.table)
        if name in change.values and (value := before.values.get(name)) is not None
    }


@cache
def _once(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.c if column.info.get("once"))
