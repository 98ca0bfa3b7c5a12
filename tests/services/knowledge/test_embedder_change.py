"""Another embedder: its index is filled beside the former one, which answers until then."""

from __future__ import annotations

import pytest
from sqlalchemy import func, select

from tests.services.knowledge.test_knowledge_index import CASES, build_index
from tests.support.knowledge.indexed_knowledge import SHIPPED_EMBEDDER, IndexHarness
from tests.support.knowledge.letter_embedder import LetterEmbedder, PausedEmbedder
from turnlog.events.async_tasks import run_tasks
from turnlog.events.errors import Unavailable
from turnlog.projections.knowledge.knowledge_inputs import EntryInput
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.schema.read_model_tables import (
    KNOWLEDGE_ENTRIES,
    KNOWLEDGE_HISTORIES,
    KNOWLEDGE_INDEX,
    KNOWLEDGE_TEXTS,
)
from turnlog.services.knowledge.embedders import CheckedEmbedder

QUESTION = "Which vessels are late in the harbour?"


def change_embedder(index: IndexHarness, letters: LetterEmbedder) -> IndexHarness:
    """Return the same index in a process with another embedder."""
    return IndexHarness(
        index.store, index.knowledge, CheckedEmbedder(setting="letters", _created=letters)
    )


async def test_former_embedder_serves_searches_until_the_new_index_is_complete(
    store: ReadModelStore,
) -> None:
    former = await build_index(store)
    before = await former.search(QUESTION, "cases", "docs")
    letters = LetterEmbedder()
    index = change_embedder(former, letters)
    async with run_tasks(index.build_projector().run()):
        await letters.is_asked.wait()
        assert await index.search(QUESTION, "cases", "docs") == before
        # What is added meanwhile is found meanwhile.
        await index.knowledge.put_entries(
            "cases", EntryInput(id="new", text="Ask.", kind="case", title=QUESTION)
        )
        assert "new" in await index.find_ids(QUESTION, "cases")
        letters.may_embed.set()
        found = await index.search(QUESTION, "cases", "docs")
        while found.embedder == before.embedder:
            # Each answer is of one embedder: the vectors of both differ in length.
            found = await index.search(QUESTION, "cases", "docs")
    assert found.embedder == "letters-1"
    assert {hit.entry_id for hit in found.hits if hit.confidence > 0.999} == {"late-ships", "new"}
    fresh = change_embedder(former, letters)
    assert await fresh.search(QUESTION, "cases", "docs") == found
    await fresh.rebuild()
    assert (await fresh.search(QUESTION, "cases", "docs")).hits == found.hits
    # What the former build had is gone.
    kept = {KNOWLEDGE_INDEX: 1, KNOWLEDGE_HISTORIES: 1, KNOWLEDGE_ENTRIES: 6, KNOWLEDGE_TEXTS: 6}
    async with store.open_reader() as connection:
        for table, count in kept.items():
            rows = select(func.count()).select_from(table)
            assert await connection.scalar(rows) == count, table


async def test_question_embedded_during_an_index_switch_is_embedded_again(
    store: ReadModelStore,
) -> None:
    former = await build_index(store)
    shipped = await SHIPPED_EMBEDDER.load_version()
    letters, paused = LetterEmbedder(), PausedEmbedder(SHIPPED_EMBEDDER, shipped.name)
    letters.may_embed.set()
    both = CheckedEmbedder(
        setting="letters",
        _created=letters,
        _former={shipped.setting: CheckedEmbedder(_created=paused)},
    )
    index = IndexHarness(store, former.knowledge, both)
    async with run_tasks(index.search(QUESTION, "cases")) as (search,):
        await paused.is_asked.wait()
        await index.rebuild()
        paused.may_embed.set()
        found = await search
    assert found.embedder == "letters-1"
    assert found.hits[0].confidence > 0.999


async def test_two_projectors_build_the_index_of_a_new_embedder_together(
    store: ReadModelStore,
) -> None:
    former = await build_index(store)
    letters = LetterEmbedder()
    letters.may_embed.set()
    indexes = [change_embedder(former, letters) for _ in range(2)]
    async with run_tasks(*(index.build_projector().run() for index in indexes)):
        found = await indexes[0].search(QUESTION, "cases")
        while found.embedder != "letters-1":
            found = await indexes[0].search(QUESTION, "cases")
        # Both follow the new one.
        for number in range(4):
            await former.knowledge.put_entries(
                "docs", EntryInput(id=f"more:{number}", text="More tides.")
            )
        live = await indexes[1].search("tides", "docs")
    assert {hit.entry_id for hit in live.hits} >= {f"more:{number}" for number in range(4)}


async def test_index_of_a_removed_embedder_is_unavailable_until_it_is_rebuilt(
    store: ReadModelStore,
) -> None:
    letters = LetterEmbedder()
    letters.may_embed.set()
    gone = IndexHarness(store, embedder=CheckedEmbedder(setting="gone", _created=letters))
    await gone.knowledge.put_entries("cases", *CASES)
    await gone.rebuild()
    index = IndexHarness(store, gone.knowledge)
    index.searching.position_timeout = 0.05
    with pytest.raises(Unavailable, match="of letters-1, this process has wordllama-"):
        await index.find_ids(QUESTION, "cases")
    index.searching.position_timeout = 60
    async with run_tasks(index.build_projector().run()):
        found = await index.search(QUESTION, "cases")
    assert found.embedder == (await SHIPPED_EMBEDDER.load_version()).name
    assert found.hits[0].confidence > 0.999
