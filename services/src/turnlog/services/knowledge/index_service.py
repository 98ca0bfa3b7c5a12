"""Answers knowledge searches from the index of this process's database."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final

from turnlog.events.errors import Unavailable
from turnlog.projections.knowledge.search_port import (
    IndexPositions,
    KnowledgeHit,
    SearchRequest,
    SearchResult,
)
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.knowledge.knowledge_projection import (
    KNOWLEDGE_VERSION,
    KnowledgePosition,
    read_histories,
    read_knowledge_position,
    read_searchable_sequence,
    read_vector_length,
)
from turnlog.projections.store.read.read_your_writes import ProjectionSignal, wait_for_sequence
from turnlog.projections.store.write.projection_positions import read_active_position
from turnlog.services.knowledge.embedders import CheckedEmbedder
from turnlog.services.platform.concurrency import run_in_thread

if TYPE_CHECKING:
    from turnlog.projections.store.knowledge.vector_matrix import VectorMatrices

POSITION_TIMEOUT: Final = 5.0
"""Seconds that a search waits for the index to come to where the request wants it."""

_SEARCH_MODULE: Final = "turnlog.projections.store.knowledge.index_search"


@dataclass(slots=True)
class IndexedKnowledge:
    """A `KnowledgeSearch` on the database of this process."""

    store: ReadModelStore
    signal: ProjectionSignal
    embedder: CheckedEmbedder
    position_timeout: float = POSITION_TIMEOUT
    _matrices: VectorMatrices | None = None

    async def search(self, request: SearchRequest) -> SearchResult:
        """See `KnowledgeSearch`."""
        positions = await self._wait_for_positions(request)
        (vector,) = await self.embedder.embed_texts([request.text])
        # numpy comes with it: 30 MB that a service without knowledge does without
        await run_in_thread(partial(import_module, _SEARCH_MODULE))
        from turnlog.projections.store.knowledge import (  # noqa: PLC0415
            index_search,
            vector_matrix,
        )

        matrices = self._matrices = self._matrices or vector_matrix.VectorMatrices()
        async with self.store.open_reader() as connection:
            at = _require_usable(await read_knowledge_position(connection))
            self._check_embedder(at, await read_vector_length(connection, at.vectors), vector)
            history = (await read_histories(connection)).get(request.tenant)
            hits: tuple[KnowledgeHit, ...] = ()
            if history is not None:
                search = index_search.IndexSearch(
                    connection, at, history, matrices, request, vector
                )
                hits = await search.find_hits()
        sequence = history.sequence if history else 0
        return SearchResult(
            hits,
            f"{at.vectors}-{KNOWLEDGE_VERSION}",
            at.embedder,
            IndexPositions(sequence, positions.votes),
        )

    def _check_embedder(
        self, at: KnowledgePosition, length: int | None, vector: list[float]
    ) -> None:
        name = self.embedder.name
        if at.embedder != name:
            detail = f"its vectors are of {at.embedder}, this process has {name}"
            raise Unavailable("knowledge-index", f"{detail}: restart the projector with it")
        if length is not None and length != len(vector):
            detail = f"{name}: {len(vector)} numbers, the vectors of the index have {length}"
            raise Unavailable("embedder", f"{detail}: run `turnlog rebuild`")

    async def _wait_for_positions(self, request: SearchRequest) -> IndexPositions:
        """Wait until the index has come as far as the request wants; raises `Unavailable`."""
        wanted = request.min_positions
        entries = partial(read_searchable_sequence, self.store, request.tenant)
        for what, read, sequence in (
            ("entries", entries, wanted.knowledge),
            ("votes", self._read_votes_position, wanted.votes),
        ):
            if not await wait_for_sequence(
                self.signal, read, sequence, within=self.position_timeout
            ):
                async with self.store.open_reader() as connection:
                    _require_usable(await read_knowledge_position(connection))
                detail = f"its {what} are behind {sequence}: see the log of the projector"
                raise Unavailable("knowledge-index", detail)
        return IndexPositions(wanted.knowledge, await self._read_votes_position())

    async def _read_votes_position(self) -> int:
        async with self.store.open_reader() as connection:
            at = await read_active_position(connection)
        return at.position if at else 0


def _require_usable(at: KnowledgePosition | None) -> KnowledgePosition:
    if at is None:
        raise Unavailable("knowledge-index", "no projector has made one yet")
    if at.version != KNOWLEDGE_VERSION:
        raise Unavailable("knowledge-index", "it is of another release: restart the projector")
    if not at.is_complete:
        raise Unavailable("knowledge-index", "it is being built")
    return at
