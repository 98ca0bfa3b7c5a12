"""Which sessions had a text of the library, as the rows know it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import false, or_, select

from turnlog.events.content import Digest
from turnlog.projections.store.async_engine import AsyncConnection
from turnlog.projections.store.read.row_filters import match_tenant
from turnlog.projections.store.schema.read_model_tables import PROMPT_SOURCES, RETRIEVED_ENTRIES


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReach:
    """What a session may have had."""

    collection: str | None = None
    entries: tuple[str, ...] = ()
    """Entries of the collection, which a turn may have retrieved."""
    segment: int | None = None
    digests: tuple[Digest, ...] = ()
    """Digests of users' own texts, by which prompts name them."""


async def list_reached_sessions(
    connection: AsyncConnection, tenant: str, reach: SourceReach
) -> Sequence[str]:
    """Return the sessions in which a turn retrieved an entry, or a prompt includes a text."""
    taken, sources = RETRIEVED_ENTRIES.c, PROMPT_SOURCES.c
    retrieved = select(taken.session).where(
        match_tenant(RETRIEVED_ENTRIES, tenant),
        taken.collection == reach.collection,
        taken.entry.in_(reach.entries),
    )
    is_segment = sources.lookup == f"segment:{reach.segment}" if reach.segment else false()
    included = select(sources.session).where(
        match_tenant(PROMPT_SOURCES, tenant), or_(is_segment, sources.digest.in_(reach.digests))
    )
    found = await connection.scalars(retrieved.union(included))
    return sorted(found.all())
