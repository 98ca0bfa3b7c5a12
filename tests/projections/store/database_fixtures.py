"""Fixtures that run each test on SQLite and on Postgres."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.sessions.prepared_database import open_prepared_store
from turnlog.projections.store.engine import ReadModelStore, open_store


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'rows.db'}"
    has_tables = "store" in request.fixturenames
    return str(request.getfixturevalue("prepared_postgres_url" if has_tables else "postgres_url"))


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[ReadModelStore]:
    if database_url.startswith("sqlite:///"):
        opened = await open_prepared_store(Path(database_url.removeprefix("sqlite:///")))
    else:
        opened = open_store(database_url)
    yield opened
    await opened.close()
