"""Damaged read models: a service names the file, and builds them again once it is gone."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes.live_service import LiveService
from tests.support.processes.process_host import POLL_INTERVAL, ProcessHost
from tests.support.processes.turnlog_up import run_turnlog_up

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(300),
    pytest.mark.slow("processes of the service start, stop and recover"),
]


def overwrite_header(file: Path) -> None:
    file.write_bytes(b"no database" + file.read_bytes()[11:])


def overwrite_tables(file: Path) -> None:
    """Overwrite the first page of every table but those that a start reads."""
    with closing(sqlite3.connect(file)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        pages = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE type = 'table'"
            " AND tbl_name NOT IN ('projections', 'alembic_version')"
        ).fetchall()
    with file.open("r+b") as database:
        for (page,) in pages:
            database.seek((page - 1) * size)
            database.write(b"\xaa" * size)


@pytest.mark.parametrize("damage", [overwrite_header, overwrite_tables])
async def test_damaged_read_models_are_named_and_rebuilt_once_deleted(
    host: ProcessHost, damage: Callable[[Path], None]
) -> None:
    async with run_turnlog_up(host) as up:
        await up.service.wait_until_ready(up.process)
        session = await up.service.open_session()
        await up.service.list_calls(session)
    file = host.folder / "data/read-models.db"
    damage(file)
    async with run_turnlog_up(host) as up:
        database = await wait_for_damage(up.service)
        assert f"delete {file}" in database["detail"]
        assert "built again from the log" in database["detail"]
        # The log is intact, so turns go on.
        await up.service.submit_turn(await up.service.open_session())
    for suffix in ("", "-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)
    async with run_turnlog_up(host) as up:
        await up.service.wait_until_ready(up.process)
        await up.service.list_calls(session)


async def wait_for_damage(service: LiveService) -> dict[str, Any]:
    """Wait until `/readyz` is not ready because of the database, which is checked after a start."""
    async with asyncio.timeout(60):
        while True:
            answer = await service.http.get("/readyz")
            database = dict(answer.json()["parts"]["database"])
            if answer.status_code == 503 and not database["ready"]:
                return database
            await asyncio.sleep(POLL_INTERVAL)
