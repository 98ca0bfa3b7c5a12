from __future__ import annotations

from typing import Final

from sqlalchemy import Delete, Table, delete, select, tuple_

from turnlog.projections.store import checkpoints
from turnlog.projections.store.engine import Store
from turnlog.projections.store.tables import ROWS, SESSIONS

_FEW: Final = 50
"""Sessions cleared in one transaction, however many turns they have."""


async def clear_unseen(store: Store, *, below: int | None = None) -> None:
    """Clear every build that readers do not use, or only those below build number `below`."""
    async with store.writing() as connection:
        builds = await checkpoints.unseen(connection, below=below)
    for build in builds:
        while await _cleared_few(store, build):
            pass
        async with store.writing() as connection:
            # Rows without a session row: events that were quarantined before their session opened.
            for table in ROWS:
                await connection.execute(delete(table).where(table.c.build == build))
            await checkpoints.forget(connection, build)


async def _cleared_few(store: Store, build: int) -> bool:
    async with store.writing() as connection:
        few = select(SESSIONS.c.tenant, SESSIONS.c.session).where(SESSIONS.c.build == build)
        owners = [tuple(row) for row in await connection.execute(few.limit(_FEW))]
        for table in ROWS:
            await connection.execute(_of(table, build, owners))
    return bool(owners)


def _of(table: Table, build: int, owners: list[tuple[str, str]]) -> Delete:
    mine = tuple_(table.c.tenant, table.c.session).in_(owners)
    return delete(table).where(table.c.build == build, mine)
