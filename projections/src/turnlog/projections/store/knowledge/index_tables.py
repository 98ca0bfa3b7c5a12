"""The words and vectors of the knowledge index, as the database at hand stores them best.

They are made with each build and not by migrations, because they depend on what the database has
and on the tenants: nothing is lost with them that the log does not have.

SQLite ranks words by BM25 (FTS5), with one table for each tenant, because the weight of a word
follows from how many texts of its table have it, and a tenant's hits must not depend on another's
texts. Postgres ranks words by `ts_rank`, which does not weigh words by how rare they are. Both stem
English and ignore accents only where SQLite does. Vectors are of pgvector's type where Postgres has
that extension, and bytes elsewhere.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import TextClause, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

PGVECTOR: Final = "pgvector"
"""Vectors of the extension's type, which the database compares."""

BYTES: Final = "bytes"
"""Vectors as bytes of 32-bit floats, which numpy compares."""

_WORDS_PREFIX: Final = "knowledge_words_"

_TOKENIZER: Final = "porter unicode61 remove_diacritics 2"

Vector = Sequence[float]


@dataclass(frozen=True, slots=True)
class IndexedText:
    """An entry as the index stores it."""

    number: int
    tenant: str
    history: int
    """The number of the tenant's history, which names the table of its words."""
    collection: str
    title: str
    content: str
    vector: Vector


async def create_index_tables(connection: AsyncConnection) -> str:
    """Create the tables empty; return how vectors are stored."""
    await connection.execute(text("DROP TABLE IF EXISTS knowledge_vectors"))
    if connection.dialect.name == "sqlite":
        await _drop_word_tables(connection)
        await _create_vectors(connection, "BLOB")
        return BYTES
    await connection.execute(text("DROP TABLE IF EXISTS knowledge_words"))
    await connection.execute(
        text(
            "CREATE TABLE knowledge_words (number bigint PRIMARY KEY, tenant text NOT NULL, "
            "words tsvector NOT NULL)"
        )
    )
    await connection.execute(
        text("CREATE INDEX knowledge_words_by_word ON knowledge_words USING gin (words)")
    )
    has_pgvector = await _prepare_pgvector(connection)
    await _create_vectors(connection, "vector" if has_pgvector else "bytea")
    return PGVECTOR if has_pgvector else BYTES


async def _drop_word_tables(connection: AsyncConnection) -> None:
    rows = await connection.execute(
        text(
            "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE%' "
            "AND name LIKE 'knowledge\\_words\\_%' ESCAPE '\\'"
        )
    )
    for (name,) in rows.all():
        await connection.execute(text(f'DROP TABLE "{name}"'))


async def _create_vectors(connection: AsyncConnection, vector_type: str) -> None:
    await connection.execute(
        text(
            "CREATE TABLE knowledge_vectors (number bigint PRIMARY KEY, tenant text NOT NULL, "
            f"collection text NOT NULL, embedding {vector_type} NOT NULL)"
        )
    )
    await connection.execute(
        text("CREATE INDEX knowledge_vectors_by_tenant ON knowledge_vectors (tenant, number)")
    )


async def _prepare_pgvector(connection: AsyncConnection) -> bool:
    """Return whether the database has the extension, or lets this role create it."""
    available = text("SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'")
    if not await connection.scalar(available):
        return False
    try:
        async with connection.begin_nested():
            await connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
    except DBAPIError:
        return False  # The role may not create extensions; numpy compares the vectors.
    return True


def get_words_table(history: int) -> str:
    """Return the name of the table with the words of a tenant, on SQLite."""
    return f"{_WORDS_PREFIX}{int(history)}"


async def create_words_table(connection: AsyncConnection, history: int) -> None:
    """Create the table for the words of a new tenant, where each has one."""
    if connection.dialect.name == "sqlite":
        await connection.execute(
            text(
                f"CREATE VIRTUAL TABLE {get_words_table(history)} USING fts5(title, content, "
                f"content='knowledge_entries', content_rowid='number', tokenize='{_TOKENIZER}')"
            )
        )


async def insert_texts(
    connection: AsyncConnection, vectors: str, texts: Iterable[IndexedText]
) -> None:
    """Insert the words and vectors of new entries, all of one tenant."""
    rows = list(texts)
    if not rows:
        return
    await connection.execute(
        _build_word_insert(connection, rows[0].history),
        [
            {
                "number": each.number,
                "tenant": each.tenant,
                "title": each.title,
                "content": each.content,
            }
            for each in rows
        ],
    )
    cast = "CAST(CAST(:embedding AS text) AS vector)" if vectors == PGVECTOR else ":embedding"
    await connection.execute(
        text(
            "INSERT INTO knowledge_vectors (number, tenant, collection, embedding) "
            f"VALUES (:number, :tenant, :collection, {cast})"
        ),
        [
            {
                "number": each.number,
                "tenant": each.tenant,
                "collection": each.collection,
                "embedding": encode_vector(vectors, each.vector),
            }
            for each in rows
        ],
    )


def _build_word_insert(connection: AsyncConnection, history: int) -> TextClause:
    if connection.dialect.name == "sqlite":
        table = get_words_table(history)
        return text(
            f"INSERT INTO {table} (rowid, title, content) VALUES (:number, :title, :content)"
        )
    return text(
        "INSERT INTO knowledge_words (number, tenant, words) VALUES (:number, :tenant, "
        "setweight(to_tsvector('english', :title), 'A') || to_tsvector('english', :content))"
    )


async def delete_texts(
    connection: AsyncConnection, history: int, rows: Iterable[tuple[int, str, str | None]]
) -> None:
    """Delete the words and vectors of entries of one tenant: number, title and content."""
    old = list(rows)
    numbers = [{"number": number} for number, _, _ in old]
    if not numbers:
        return
    if connection.dialect.name == "sqlite":
        # A table without texts of its own needs the words that it has to forget.
        table = get_words_table(history)
        forgotten = [
            {"number": number, "title": title, "content": content}
            for number, title, content in old
            if content is not None
        ]
        if forgotten:
            await connection.execute(
                text(
                    f"INSERT INTO {table} ({table}, rowid, title, content) "
                    "VALUES ('delete', :number, :title, :content)"
                ),
                forgotten,
            )
    else:
        await connection.execute(
            text("DELETE FROM knowledge_words WHERE number = :number"), numbers
        )
    await connection.execute(text("DELETE FROM knowledge_vectors WHERE number = :number"), numbers)


def encode_vector(vectors: str, vector: Vector) -> str | bytes:
    """Return a vector as it is bound to a statement."""
    if vectors == PGVECTOR:
        return "[" + ",".join(map(repr, vector)) + "]"
    return struct.pack(f"<{len(vector)}f", *vector)
