"""Changes of rows: built from events without a database, then written in few statements.

A change names its row by natural key and sets values, never differences, so applying it twice has
the same effect as once. Changes of one batch to the same row are merged first. Afterwards no two
changes affect the same row, and they can be written table by table in any order.

For each table and set of columns, one statement is built and compiled, and the rows are sent to the
driver as tuples. SQLAlchemy's own way inspects each value of each row, which costs more than the
database takes to store it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final, cast

from sqlalchemy import (
    AdaptedConnection,
    Connection,
    Table,
    and_,
    bindparam,
    make_url,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
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


@dataclass(frozen=True, slots=True)
class MergedChanges:
    """Changes of which no two affect the same row."""

    _by_row: dict[tuple[Table, tuple[ColumnValue, ...]], RowChange] = field(
        default_factory=dict[tuple[Table, tuple[ColumnValue, ...]], RowChange]
    )

    def add_change(self, change: RowChange) -> None:
        """Add a change after the others; merged with an earlier one of the same row."""
        place = (change.table, change.key)
        before = self._by_row.get(place)
        self._by_row[place] = _merge_pair(before, change) if before else change

    def list_changes(self) -> Sequence[RowChange]:
        """Return one change per row."""
        return list(self._by_row.values())


def merge_changes(changes: Iterable[RowChange]) -> MergedChanges:
    """Return equivalent changes with at most one change per row."""
    merged = MergedChanges()
    for change in changes:
        merged.add_change(change)
    return merged


def _merge_pair(before: RowChange, change: RowChange) -> RowChange:
    if isinstance(change, PutRow):
        return change
    kind = PutRow if isinstance(before, PutRow) else PatchRow
    return kind(before.table, before.key, {**before.values, **change.values})


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStatement:
    """One statement, and its parameters for each row."""

    table: str
    is_put: bool
    """Whether it sets whole rows, and so can be a copy of rows that do not exist."""
    sql: str
    columns: tuple[str, ...]
    """The column of each parameter."""
    rows: list[tuple[ColumnValue, ...]]


def build_statements(changes: MergedChanges, build: int, dialect: str) -> Sequence[RowStatement]:
    """Return the statements that write the changes to the rows of one build."""
    groups: dict[tuple[str, str, tuple[str, ...]], list[RowChange]] = {}
    for change in changes.list_changes():
        groups.setdefault(_get_statement_key(change), []).append(change)
    return [_build_statement(groups[key], build, dialect) for key in sorted(groups)]


def _get_statement_key(change: RowChange) -> tuple[str, str, tuple[str, ...]]:
    names = tuple(sorted(change.values)) if isinstance(change, PatchRow) else ()
    return change.table.name, type(change).__name__, names


def _build_statement(alike: Sequence[RowChange], build: int, dialect: str) -> RowStatement:
    first = alike[0]
    patched = tuple(sorted(first.values)) if isinstance(first, PatchRow) else None
    sql, columns = _compile_statement(first.table, patched, dialect)
    keys = _list_key_columns(first.table)
    rows = [_build_parameters(columns, keys, build, change) for change in alike]
    return RowStatement(
        table=first.table.name, is_put=patched is None, sql=sql, columns=columns, rows=rows
    )


def _build_parameters(
    places: tuple[str, ...], keys: tuple[str, ...], build: int, change: RowChange
) -> tuple[ColumnValue, ...]:
    found = map({**change.values, **dict(zip(keys, (build, *change.key), strict=True))}.get, places)
    # Hardly any text contains NUL, and testing first costs less than a call per value.
    return tuple([replace_nul(v) if isinstance(v, str) and NUL in v else v for v in found])


_KEY_PREFIX: Final = "key of "
"""Prefix that separates a key parameter from the parameter of a written column."""


_DIALECTS: Final = {
    url.get_backend_name(): url.get_dialect()()
    for url in map(make_url, ("sqlite+pysqlite://", "postgresql+asyncpg://"))
}
"""Dialects by name; what folds events need not be connected to the database."""


# There are only a few dozen statements, and building one takes longer than running it.
@cache
def _compile_statement(
    table: Table, patched: tuple[str, ...] | None, dialect: str
) -> tuple[str, tuple[str, ...]]:
    """Return a statement, and the column of each of its parameters."""
    made = _build_upsert(table, dialect) if patched is None else _build_update(table, patched)
    sql, places = compile_statement(made, dialect)
    return sql, tuple(place.removeprefix(_KEY_PREFIX) for place in places)


def compile_statement(made: Insert | Update, dialect: str) -> tuple[str, tuple[str, ...]]:
    """Return a statement as a driver takes it, and the name of each of its parameters."""
    compiled = made.compile(dialect=_DIALECTS[dialect])
    return str(compiled), tuple(compiled.positiontup or ())


def create_insert(table: Table, dialect: str) -> sqlite.Insert | postgresql.Insert:
    """Return an insert whose conflicts can be handled."""
    # Both dialects have the same syntax for that, but their classes have no common base.
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)


def _build_upsert(table: Table, dialect: str) -> Insert:
    row = create_insert(table, dialect)
    names = [column.name for column in table.c]
    rest = {name: row.excluded[name] for name in names if name not in _list_key_columns(table)}
    if not rest:  # The key is all there is
        return row.on_conflict_do_nothing(index_elements=_list_key_columns(table))
    return row.on_conflict_do_update(index_elements=_list_key_columns(table), set_=rest)


def _build_update(table: Table, names: tuple[str, ...]) -> Update:
    condition = and_(
        *(table.c[key] == bindparam(f"{_KEY_PREFIX}{key}") for key in _list_key_columns(table))
    )
    return (
        update(table)
        .where(condition)
        .values({name: bindparam(name, type_=table.c[name].type) for name in names})
    )


@cache
def _list_key_columns(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.primary_key.columns)


def write_changes(connection: Connection, build: int, changes: Iterable[RowChange]) -> None:
    """Write changes to the rows of one build."""
    run_statements(
        connection, build_statements(merge_changes(changes), build, connection.dialect.name)
    )


COPY_ROWS: Final = 100
"""Rows from which on a table is copied into on Postgres; fewer are not worth a savepoint."""


def run_statements(connection: Connection, statements: Iterable[RowStatement]) -> None:
    """Run statements; those that set many rows are copies on Postgres."""
    for statement in statements:
        if not (
            statement.is_put
            and len(statement.rows) >= COPY_ROWS
            and connection.dialect.name == "postgresql"
            and _copy_rows(connection, statement)
        ):
            connection.exec_driver_sql(statement.sql, statement.rows)


def _copy_rows(connection: Connection, statement: RowStatement) -> bool:
    """Copy rows into a table; return False, with nothing written, if the database refuses that.

    It refuses a row that exists, which only an upsert can set, and values that it refuses anyway.
    """
    savepoint = connection.begin_nested()
    driver = cast("AdaptedConnection", connection.connection.dbapi_connection)
    try:
        driver.run_async(partial(_copy_records, statement))
    except OSError:
        raise  # It timed out, or the connection is lost.
    except Exception:  # noqa: BLE001 the upsert meets the same error, and raises it by SQLAlchemy's name
        savepoint.rollback()
        return False
    savepoint.commit()
    return True


async def _copy_records(statement: RowStatement, driver: Any) -> None:  # noqa: ANN401 asyncpg has no types
    await driver.copy_records_to_table(
        statement.table, records=statement.rows, columns=statement.columns
    )
