from __future__ import annotations

from typing import Final

from sqlalchemy import Delete, Table, delete, select, tuple_

from turnlog.projections.store import checkpoints
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.tables import ROW_TABLES, SESSIONS

_CLEAR_BATCH: Final = 50
"""Sessions cleared in one transaction, however many turns they have."""


async def clear_hidden_builds(store: ReadModelStore, *, below: int | None = None) -> None:
    """Clear every build that readers do not use, or only those below build number `below`."""
    async with store.open_writer() as connection:
        builds = await checkpoints.claim_hidden_builds(connection, below=below)
    for build in builds:
        while await _clear_sessions(store, build):
            pass
        async with store.open_writer() as connection:
            # Rows without a session row: events that were quarantined before their session opened.
            for table in ROW_TABLES:
                await connection.execute(delete(table).where(table.c.build == build))
            await checkpoints.delete_build(connection, build)


async def _clear_sessions(store: ReadModelStore, build: int) -> bool:
    async with store.open_writer() as connection:
        few = select(SESSIONS.c.tenant, SESSIONS.c.session).where(SESSIONS.c.build == build)
        owners = [tuple(row) for row in await connection.execute(few.limit(_CLEAR_BATCH))]
        for table in ROW_TABLES:
            await connection.execute(_build_delete(table, build, owners))
    return bool(owners)


def _build_delete(table: Table, build: int, owners: list[tuple[str, str]]) -> Delete:
    mine = tuple_(table.c.tenant, table.c.session).in_(owners)
    return delete(table).where(table.c.build == build, mine)
