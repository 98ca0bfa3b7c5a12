"""Damaged read models: a service names the file, and builds them again once it is gone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.processes.process_host import ProcessHost, wait_for_exit_code
from tests.support.processes.turnlog_up import run_turnlog_up
from turnlog.services.cli.error_display import ExitCode

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(300)]


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
async def test_a_service_with_damaged_read_models_names_them_and_builds_them_again(
    host: ProcessHost, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    async with run_turnlog_up(host) as up:
        session = await up.service.open_session()
        await up.service.list_calls(session)
    file, said = host.folder / "data/read-models.db", tmp_path / "up.log"
    damage(file)
    words = ("up", "--data-dir", str(host.folder / "data"), "--http", "127.0.0.1:0")
    process = await host.start_process(*words, said=said)
    assert await wait_for_exit_code(process) == ExitCode.VERIFICATION_FAILED
    shown = "".join(said.read_text().split())
    assert f"delete{file}".replace(" ", "") in shown
    assert "builtagainfromthelog" in shown
    for suffix in ("", "-wal", "-shm"):
        file.with_name(file.name + suffix).unlink(missing_ok=True)
    async with run_turnlog_up(host) as up:
        await up.service.list_calls(session)
