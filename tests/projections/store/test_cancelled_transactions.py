"""Database work that is cancelled at any moment, more than once."""

from __future__ import annotations

import asyncio
import random
import threading
from pathlib import Path

from sqlalchemy import Connection, text

from turnlog.projections.store.engine import ReadModelStore, open_store

LONG = text(
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
    " SELECT sum(i) FROM n"
)


async def run_long_writes(store: ReadModelStore) -> None:
    while True:
        async with store.open_writer() as connection:
            await connection.execute(LONG)
        await store.run_writer(lambda connection: connection.scalar(LONG))


async def test_repeatedly_cancelled_writer_leaves_no_tasks_behind(
    tmp_path: Path,
) -> None:
    store, chance = open_store(f"sqlite:///{tmp_path / 'rows.db'}"), random.Random(7)  # noqa: S311
    before = asyncio.all_tasks()
    for _ in range(150):
        left = {asyncio.create_task(run_long_writes(store))}
        await asyncio.wait(left, timeout=chance.uniform(0, 0.02))
        while left:
            for task in left:
                task.cancel()
            _, left = await asyncio.wait(left, timeout=chance.choice([0, 0.0001, 0.001, 0.003]))
    await store.close()
    if after := asyncio.all_tasks() - before:
        _, never_ending = await asyncio.wait(after, timeout=5)
        assert never_ending == set()


async def test_cancelled_transaction_in_a_thread_ends_before_its_caller_does(
    tmp_path: Path,
) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'rows.db'}")
    async with store.open_writer() as connection:
        await connection.execute(text("CREATE TABLE counts (number INTEGER)"))
    began, cancelled, ended = threading.Event(), threading.Event(), threading.Event()

    def write_row(connection: Connection) -> None:
        connection.execute(text("INSERT INTO counts VALUES (1)"))
        began.set()
        # Otherwise a busy machine may cancel it only once it has ended.
        cancelled.wait()
        connection.execute(LONG)
        ended.set()

    task = asyncio.create_task(store.run_writer(write_row))
    await asyncio.to_thread(began.wait)
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=0.001)
        cancelled.set()
    assert task.cancelled()
    assert ended.is_set()
    async with store.open_reader() as reader:
        assert await reader.scalar(text("SELECT count(*) FROM counts")) == 1
    await store.close()
