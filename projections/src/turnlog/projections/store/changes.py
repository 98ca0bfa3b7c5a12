"""Changes to rows: what follows from events, before any database is asked.

A change names its row by natural key and gives values, never differences, so making it twice is
the same as making it once. Changes of one batch to one row are merged first; after that no two
touch the same row, and they can be written table by table in any order.
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
    """Give what `before` says of columns that stay as they were first written."""
    return {
        name: value
        for name in _once(change.table)
        if name in change.values and (value := before.values.get(name)) is not None
    }


@cache
def _once(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.c if column.info.get("once"))
