"""Answers knowledge searches from the index of this process's database."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

import structlog

from turnlog.events.errors import Corrupt, Unavailable
from turnlog.projections.knowledge.search_port import (
    IndexPositions,
    KnowledgeHit,
    SearchRequest,
    SearchResult,
)
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.knowledge.knowledge_builds import (
    DAMAGED_VERSION,
    KNOWLEDGE_VERSION,
    KnowledgePosition,
    mark_build_damaged,
    read_knowledge_position,
)
from turnlog.projections.store.knowledge.knowledge_projection import Vector, read_history
from turnlog.projections.store.read.read_your_writes import ProjectionSignal, wait_for_sequence
from turnlog.projections.store.write.projection_positions import read_active_position
from turnlog.services.knowledge.embedders import CheckedEmbedder
from turnlog.services.platform.concurrency import run_in_thread

if TYPE_CHECKING:
    from turnlog.projections.store.knowledge.tenant_index import TenantIndex, TenantIndexes

POSITION_TIMEOUT: Final = 5.0
"""Seconds that a search waits for the index to come to where the request wants it."""

DAMAGE_DETAIL: Final = "its rows are damaged, so the projector builds it again"

_log = structlog.get_logger("turnlog.knowledge")

INDEX_VERSION: Final = f"bm25-vectors-{KNOWLEDGE_VERSION}"
"""The rules of the index, as retrievals record them."""

_SEARCH_MODULE: Final = "turnlog.projections.store.knowledge.index_search"


@dataclass(slots=True, kw_only=True)
class IndexedKnowledge:
    """A `KnowledgeSearch` on the database of this process."""

    store: ReadModelStore
    signal: ProjectionSignal
    embedder: CheckedEmbedder
    position_timeout: float = POSITION_TIMEOUT
    _indexes: TenantIndexes | None = None

    async def search(self, request: SearchRequest) -> SearchResult:
        """See `KnowledgeSearch`."""
        # numpy comes with it: 30 MB that a service without knowledge does without
        await run_in_thread(partial(import_module, _SEARCH_MODULE))
        result: SearchResult | None = None
        while result is None:
            votes = await self._wait_for_positions(request)
            async with self.store.open_reader() as connection:
                read = await read_knowledge_position(connection)
            at, embedder = await self._require_usable(read)
            (vector,) = await embedder.embed_texts([request.text])
            try:
                result = await self._search_build(request, at, vector, votes)
            except Corrupt as damage:
                await self._report_damage(at, damage)
                raise Unavailable("knowledge-index", DAMAGE_DETAIL) from damage
        return result

    async def _report_damage(self, at: KnowledgePosition, damage: Corrupt) -> None:
        """Have the projector build the index again."""
        async with self.store.open_writer() as connection:
            is_first = await mark_build_damaged(connection, at.build)
        if is_first:
            _log.error("knowledge-index-damaged", detail=damage.detail)

    async def _search_build(
        self, request: SearchRequest, at: KnowledgePosition, vector: Vector, votes: int
    ) -> SearchResult | None:
        """Search a build; None if another one is active by now, perhaps of another embedder."""
        from turnlog.projections.store.knowledge import (  # noqa: PLC0415
            index_search,
            tenant_index,
        )

        indexes = self._indexes = self._indexes or tenant_index.TenantIndexes()
        hits: tuple[KnowledgeHit, ...] = ()
        async with self.store.open_reader() as connection:
            now = await read_knowledge_position(connection)
            if now is None or now.build != at.build:
                return None
            history = await read_history(connection, at.build, request.tenant)
            sequence = history.sequence if history else 0
            if sequence < request.min_positions.knowledge:
                return None  # The build has become active meanwhile, and is behind the former one.
            if history is not None:
                index = await indexes.load_index(connection, at.build, request.tenant, history)
                _check_length(at, index, vector)
                search = index_search.IndexSearch(connection, index, request, vector)
                hits = await search.find_hits()
        found = IndexPositions(sequence, votes)
        return SearchResult(hits, INDEX_VERSION, at.embedder.name, found)

    async def _find_embedder(self, at: KnowledgePosition) -> CheckedEmbedder:
        embedder = await self.embedder.find_version(at.embedder)
        if embedder is None:
            own = (await self.embedder.load_embedder()).name
            detail = f"its vectors are of {at.embedder.name}, this process has {own}"
            raise Unavailable("knowledge-index", f"{detail}: the projector builds it again")
        return embedder

    async def _wait_for_positions(self, request: SearchRequest) -> int:
        """Wait until the index has come as far as the request wants; return that of the votes.

        Raises `Unavailable`.
        """
        wanted = request.min_positions
        entries = partial(self._read_searchable_sequence, request.tenant)
        for what, read, sequence in (
            ("entries", entries, wanted.knowledge),
            ("votes", self._read_votes_position, wanted.votes),
        ):
            if not await wait_for_sequence(
                self.signal, read, sequence, within=self.position_timeout
            ):
                async with self.store.open_reader() as connection:
                    at = await read_knowledge_position(connection)
                await self._require_usable(at)
                detail = f"its {what} are behind {sequence}: see the log of the projector"
                raise Unavailable("knowledge-index", detail)
        return await self._read_votes_position()

    async def _read_searchable_sequence(self, tenant: str) -> int:
        """Return the sequence of a tenant's knowledge in the index; -1 while it is not usable."""
        async with self.store.open_reader() as connection:
            at = await read_knowledge_position(connection)
            try:
                at, _ = await self._require_usable(at)
            except Unavailable:
                return -1
            history = await read_history(connection, at.build, tenant)
        return history.sequence if history else 0

    async def _require_usable(
        self, at: KnowledgePosition | None
    ) -> tuple[KnowledgePosition, CheckedEmbedder]:
        """Return where the index is, and its embedder; raises `Unavailable`."""
        if at is None:
            raise Unavailable("knowledge-index", "no projector has made one yet")
        if at.version == DAMAGED_VERSION:
            raise Unavailable("knowledge-index", DAMAGE_DETAIL)
        if at.version != KNOWLEDGE_VERSION:
            raise Unavailable("knowledge-index", "it is of another release: restart the projector")
        if not at.is_complete:
            raise Unavailable("knowledge-index", "it is being built")
        return at, await self._find_embedder(at)

    async def _read_votes_position(self) -> int:
        async with self.store.open_reader() as connection:
            at = await read_active_position(connection)
        return at.position if at else 0


async def require_sound_index(store: ReadModelStore) -> None:
    """Raise `Corrupt` while the index is built again because its rows are damaged."""
    async with store.open_reader() as connection:
        at = await read_knowledge_position(connection)
    if at is not None and at.version == DAMAGED_VERSION:
        raise Corrupt("knowledge-index", DAMAGE_DETAIL)


def _check_length(at: KnowledgePosition, index: TenantIndex, vector: Vector) -> None:
    length = index.vectors.shape[1]
    if length not in (0, len(vector)):
        detail = (
            f"{at.embedder.name}: {len(vector)} numbers, the vectors of the index have {length}"
        )
        raise Unavailable("embedder", f"{detail}: run `turnlog rebuild`")
