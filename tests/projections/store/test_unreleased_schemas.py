"""A database of a revision before the first release opens, and keeps the rows that still fit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, Table, insert, inspect, select, text

from tests.projections.store.unreleased_databases import (
    append_stories,
    create_unreleased_schema,
    insert_position,
    insert_unreleased_rows,
)
from turnlog.events.errors import Unavailable
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.read.row_types import ListedCall, ListedSession, UsageRow
from turnlog.projections.store.read.session_queries import SessionQuery, list_calls, list_sessions
from turnlog.projections.store.read.usage_queries import UsageFilter, list_usage
from turnlog.projections.store.schema.read_model_tables import (
    COMMANDS,
    METADATA,
    PROJECTIONS,
)
from turnlog.projections.store.schema.schema_migration import (
    PROJECTED_TABLES,
    SCHEMA_REVISION,
    UNRELEASED_REVISIONS,
    prepare_schema,
    read_schema_revision,
)

WORD_INDEXES = {
    "sqlite": (
        "CREATE TABLE knowledge_vectors (number bigint)",
        "CREATE VIRTUAL TABLE knowledge_words_1 USING fts5(title, content)",
        "CREATE VIRTUAL TABLE knowledge_words_2 USING fts5(title, content)",
    ),
    "postgresql": (
        "CREATE TABLE knowledge_vectors (number bigint)",
        "CREATE TABLE knowledge_words (number bigint)",
    ),
}
"""What revisions 0008 and 0009 created for each tenant."""


@pytest.fixture
async def empty_store(database_url: str) -> AsyncIterator[ReadModelStore]:
    opened = open_store(database_url)
    yield opened
    await opened.close()


@dataclass(frozen=True, slots=True)
class RowAnswers:
    """What readers get from the rows of the sessions."""

    sessions: Sequence[ListedSession]
    calls: Sequence[ListedCall]
    usage: Sequence[UsageRow]


async def read_answers(store: ReadModelStore) -> RowAnswers:
    async with store.open_reader() as connection:
        page = await list_sessions(connection, "t", SessionQuery())
        return RowAnswers(
            page.sessions,
            await list_calls(connection, "t", "first"),
            await list_usage(connection, "t", "user", UsageFilter()),
        )


def build_empty_row(table: Table) -> dict[str, object]:
    return {column.name: column.type.python_type() for column in table.c}


async def list_filled_tables(store: ReadModelStore) -> set[str]:
    async with store.open_reader() as connection:
        return {
            table.name
            for table in METADATA.sorted_tables
            if (await connection.execute(select(table))).first()
        }


def _list_differences(connection: Connection) -> list[object]:
    return list(compare_metadata(MigrationContext.configure(connection), METADATA))


@pytest.mark.parametrize("revision", UNRELEASED_REVISIONS)
async def test_database_of_any_unreleased_revision_is_migrated_to_the_current_tables(
    empty_store: ReadModelStore, revision: str
) -> None:
    log = MemoryLog()
    await append_stories(log)
    await create_unreleased_schema(empty_store, revision)
    await insert_position(empty_store, log, version=1)
    async with empty_store.open_writer() as connection:
        if revision in ("0008", "0009"):
            for statement in WORD_INDEXES[connection.dialect.name]:
                await connection.execute(text(statement))
        before = (await connection.execute(select(PROJECTIONS))).all()
    await prepare_schema(empty_store)
    async with empty_store.open_reader() as connection:
        assert await connection.run_sync(_list_differences) == []
        assert (await connection.execute(select(PROJECTIONS))).all() == before
        names = await connection.run_sync(lambda each: inspect(each).get_table_names())
    assert set(names) == {*METADATA.tables, "alembic_version"}
    assert await read_schema_revision(empty_store) == SCHEMA_REVISION


@pytest.mark.parametrize("revision", ["0009", "0010", "0011"])
async def test_readers_keep_the_rows_of_a_revision_that_has_every_required_column(
    empty_store: ReadModelStore, revision: str
) -> None:
    log = MemoryLog()
    await append_stories(log)
    await create_unreleased_schema(empty_store, revision)
    await insert_unreleased_rows(empty_store)
    await insert_position(empty_store, log, version=7)
    await prepare_schema(empty_store)
    answers = await read_answers(empty_store)
    assert [(row.session, row.title, row.turns) for row in answers.sessions] == [
        ("second", "Hello", 1),
        ("first", "Where is the tower?", 2),
    ]
    assert [(call.call, call.input_tokens) for call in answers.calls] == [("1.1", 7)]
    figures = [row.figures for row in answers.usage]
    assert [sum(each.turns for each in figures), sum(each.failed for each in figures)] == [3, 1]


@pytest.mark.parametrize("revision", UNRELEASED_REVISIONS[:8])
async def test_rows_without_a_required_column_are_dropped_with_their_projection(
    empty_store: ReadModelStore, revision: str
) -> None:
    await create_unreleased_schema(empty_store, revision)
    async with empty_store.open_writer() as connection:
        await connection.execute(insert(COMMANDS).values(**build_empty_row(COMMANDS)))
    await prepare_schema(empty_store)
    assert await list_filled_tables(empty_store) == set()


async def test_segments_and_knowledge_index_survive_the_migration(
    empty_store: ReadModelStore,
) -> None:
    tables = {*PROJECTED_TABLES[1], *PROJECTED_TABLES[2]}
    await create_unreleased_schema(empty_store, "0011")
    async with empty_store.open_writer() as connection:
        for table in tables:
            await connection.execute(insert(table).values(**build_empty_row(table)))
    await prepare_schema(empty_store)
    assert await list_filled_tables(empty_store) == {table.name for table in tables}


async def test_database_with_tables_of_another_program_is_refused_unchanged(
    empty_store: ReadModelStore,
) -> None:
    async with empty_store.open_writer() as connection:
        await connection.execute(text("CREATE TABLE sessions (name text)"))
        await connection.execute(text("INSERT INTO sessions VALUES ('of another program')"))
    with pytest.raises(Unavailable, match="sessions"):
        await prepare_schema(empty_store)
    async with empty_store.open_reader() as connection:
        names = await connection.run_sync(lambda each: inspect(each).get_table_names())
        assert names == ["sessions"]
        assert await connection.scalar(text("SELECT name FROM sessions")) == "of another program"
