"""Damaged rows of the knowledge index: found by a search, and built again without a command."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest
from sqlalchemy import update
from structlog.testing import capture_logs

from tests.services.knowledge.test_knowledge_index import build_index
from tests.support.knowledge.indexed_knowledge import IndexHarness
from turnlog.events.async_tasks import run_tasks
from turnlog.events.errors import Corrupt, Unavailable
from turnlog.projections.knowledge.search_port import SearchRequest, SearchResult
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.schema.read_model_tables import KNOWLEDGE_TEXTS
from turnlog.services.knowledge.index_service import require_sound_index
from turnlog.services.knowledge.nats_search import build_response

QUESTION = "Which vessels are late in the harbour?"

DAMAGE = {
    "a short vector": {"vector": b"1234567"},
    "an empty vector": {"vector": b""},
    "numbers that are none": {"vector": b"\xff" * 1024},
    "numbers of another size": {"vector": b"\x00\x00\x80\x7e" * 256},
    "cut words": {"words": b"123"},
}


async def damage_rows(index: IndexHarness, damage: str) -> None:
    async with index.store.open_writer() as connection:
        await connection.execute(update(KNOWLEDGE_TEXTS).values(**DAMAGE[damage]))


@pytest.mark.parametrize("damage", DAMAGE)
async def test_damaged_index_is_reported_at_once_and_built_again_by_itself(
    store: ReadModelStore, damage: str
) -> None:
    former = await build_index(store)
    before = await former.search(QUESTION, "cases", "docs")
    await damage_rows(former, damage)
    index = IndexHarness(store, former.knowledge)  # As after a restart: nothing is in memory.
    with capture_logs() as log_lines:
        with pytest.raises(Unavailable, match="its rows are damaged"):
            await index.search(QUESTION, "cases", "docs")
        with pytest.raises(Corrupt, match="its rows are damaged"):
            await require_sound_index(store)
        projector = replace(index.build_projector(), damage_interval=0.01)
        async with run_tasks(projector.run()):
            found = await search_until_rebuilt(index)
    assert found.hits == before.hits
    await require_sound_index(store)
    names = [line["event"] for line in log_lines if line["event"].startswith("knowledge-index")]
    assert names == [
        "knowledge-index-damaged",
        "knowledge-index-rebuilding",
        "knowledge-index-rebuilt",
    ]


async def test_running_projector_notices_damage_that_a_search_found(
    store: ReadModelStore,
) -> None:
    former = await build_index(store)
    before = await former.search(QUESTION, "cases", "docs")
    index = IndexHarness(store, former.knowledge)
    projector = replace(index.build_projector(), damage_interval=0.01)
    async with run_tasks(projector.run()):
        await damage_rows(index, "a short vector")
        with pytest.raises(Unavailable):
            await index.search(QUESTION, "cases", "docs")
        assert (await search_until_rebuilt(index)).hits == before.hits


async def search_until_rebuilt(index: IndexHarness) -> SearchResult:
    """Search until the index answers; each search that does not waits for the projector."""
    async with asyncio.timeout(30):
        while True:
            change = index.signal.get_next_signal()
            with suppress(Unavailable):
                return await index.search(QUESTION, "cases", "docs")
            await change.wait()


class FailingSearch:
    """A search with a bug."""

    async def search(self, request: SearchRequest) -> SearchResult:
        """Raise what nobody expects."""
        raise ValueError(request.text)


async def test_search_that_raises_is_answered_and_logged_without_its_query() -> None:
    request = SearchRequest(tenant="t", collections=("docs",), text="a secret")
    with capture_logs() as log_lines:
        answer = await build_response(FailingSearch(), request)
    assert b"a projector failed with ValueError" in answer
    assert b"secret" not in answer
    (line,) = log_lines
    assert (line["event"], line["log_level"]) == ("knowledge-search-failed", "error")
    assert "secret" not in str(line)
