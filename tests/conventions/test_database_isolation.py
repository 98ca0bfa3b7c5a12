from __future__ import annotations

import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine


async def list_tables_then_create(url: str) -> list[str]:
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        tables = await connection.run_sync(lambda sync: sqlalchemy.inspect(sync).get_table_names())
        await connection.execute(sqlalchemy.text("CREATE TABLE left_behind (n integer)"))
    await engine.dispose()
    return tables


async def test_first_test_gets_an_empty_database(postgres_url: str) -> None:
    assert await list_tables_then_create(postgres_url) == []


async def test_next_test_gets_an_empty_database_too(postgres_url: str) -> None:
    assert await list_tables_then_create(postgres_url) == []
