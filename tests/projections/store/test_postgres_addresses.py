"""Addresses of Postgres as hosts hand them out, on a real server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import make_url, text

from tests.support.servers.postgres_server import PostgresServer
from turnlog.events.errors import Refused, Unavailable
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.projections.store.postgres_address import split_address
from turnlog.projections.store.schema.schema_migration import prepare_schema


@asynccontextmanager
async def prepare_store(url: str, words: str) -> AsyncGenerator[ReadModelStore]:
    """Yield a store with its schema at an address with more words."""
    store = open_store(url + ("&" if "?" in url else "?") + words)
    try:
        await prepare_schema(store)
        yield store
    finally:
        await store.close()


async def count_prepared_statements(store: ReadModelStore) -> int:
    counted = text("SELECT count(*) FROM pg_prepared_statements WHERE name <> ''")
    async with store.open_reader() as connection:
        await connection.execute(text("SELECT 1"))
        counted_now: int = (await connection.execute(counted)).scalar_one()
    return counted_now


@pytest.mark.parametrize(
    "words",
    [
        "sslmode=prefer",
        "sslmode=disable&connect_timeout=5",
        "sslmode=allow&channel_binding=prefer&gssencmode=disable&keepalives=1",
        "sslmode=disable&application_name=turnlog&options=-c%20statement_timeout%3D9000",
        "sslmode=disable&supa=base-pooler.x&pool_timeout=10&connection_limit=1&schema=public",
    ],
)
async def test_words_of_hosts_are_read_or_passed_over(postgres_url: str, words: str) -> None:
    async with prepare_store(postgres_url, words) as store, store.open_reader() as connection:
        named = await connection.execute(text("SHOW application_name"))
        assert named.scalar_one() == ("turnlog" if "turnlog" in words else "")


async def test_short_name_of_the_protocol_is_read(postgres_url: str) -> None:
    short = postgres_url.replace("postgresql+asyncpg://", "postgres://")
    async with prepare_store(short, "sslmode=prefer") as store:
        assert store.engine.dialect.name == "postgresql"


async def test_required_encryption_is_not_given_up(own_postgres: PostgresServer) -> None:
    store = open_store(own_postgres.build_url("postgres") + "?sslmode=require")
    with pytest.raises(Unavailable, match="SSL"):
        await prepare_schema(store)
    await store.close()


@pytest.mark.parametrize(
    ("words", "is_kept"), [("pgbouncer=true", False), ("sslmode=disable", True)]
)
async def test_no_prepared_statement_is_kept_behind_a_pooler(
    postgres_url: str, words: str, *, is_kept: bool
) -> None:
    async with prepare_store(postgres_url, words) as store:
        assert (await count_prepared_statements(store) > 0) is is_kept


@pytest.mark.parametrize(
    ("address", "has_pooler"),
    [
        ("postgresql://u@db.example:6543/db", True),
        ("postgresql://u@ep-cool-1-pooler.eu.example/db?sslmode=require", True),
        ("postgresql://u@db.example/db?pgbouncer=true", True),
        ("postgresql://u@db.example:6543/db?pgbouncer=false", False),
        ("postgresql://u@db.example/db", False),
    ],
)
def test_pooler_is_recognised_by_the_address(address: str, *, has_pooler: bool) -> None:
    _, arguments = split_address(make_url(address), 30)
    assert ("statement_cache_size" in arguments) is has_pooler


@pytest.mark.parametrize(
    ("words", "field"),
    [("sslmode=maybe", "sslmode"), ("connect_timeout=soon", "connect_timeout")],
)
def test_unreadable_word_is_refused_by_its_name(words: str, field: str) -> None:
    with pytest.raises(Refused, match=f"`{field}`") as refused:
        open_store(f"postgresql://u:hidden@db.example/db?{words}")
    assert refused.value.fix is not None
    assert "hidden" not in str(refused.value)


async def test_missing_certificate_is_said_when_it_is_needed(own_postgres: PostgresServer) -> None:
    words = "sslmode=verify-full&sslrootcert=/nowhere/root.crt"
    store = open_store(f"{own_postgres.build_url('postgres')}?{words}")
    with pytest.raises(Unavailable, match=r"No such file|root\.crt"):
        await prepare_schema(store)
    await store.close()


@pytest.mark.parametrize(
    ("words", "seconds"),
    [("", 30), ("?connect_timeout=5", 5)]
    + [(f"?connect_timeout={each}", 30) for each in ("0", "-1", "nan", "inf")],
)
def test_connection_has_the_time_of_its_address_if_that_is_any(words: str, seconds: float) -> None:
    _, arguments = split_address(make_url(f"postgresql://u@db.example/db{words}"), 30)
    assert arguments["timeout"] == seconds
