"""The index of knowledge finds the same on both databases, live and rebuilt from the log."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import insert, text

from tests.support.knowledge.indexed_knowledge import IndexHarness
from tests.support.knowledge.knowledge_harness import KnowledgeHarness
from turnlog.events.async_tasks import run_tasks
from turnlog.events.content import compute_digest
from turnlog.events.errors import Corrupt, Unavailable
from turnlog.events.store.memory_log import MemoryBlobStore, MemoryLog
from turnlog.events.subjects import LIBRARY_HISTORY
from turnlog.projections.knowledge.knowledge_inputs import EntryInput
from turnlog.projections.knowledge.search_port import IndexPositions, SearchRequest
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.knowledge.knowledge_builds import read_knowledge_position
from turnlog.projections.store.schema.read_model_tables import (
    PROJECTIONS,
    RETRIEVED_ENTRIES,
    TURN_VOTES,
)
from turnlog.projections.store.write.projection_positions import SESSIONS_PROJECTION

CASES = (
    EntryInput(id="late-ships", text="Call list_ships and compare arrival times.", kind="case",
               title="Which vessels are late in the harbour?", efficiency=0.9),
    EntryInput(id="wheat-price", text="Call quote for the grain exchange.", kind="case",
               title="What does a tonne of wheat cost?", efficiency=0.4),
    EntryInput(id="berth-plan", text="Call list_berths, then sort by length.", kind="case",
               title="Which berth has room for a long ship?"),
)  # fmt: skip
DOCUMENTS = (
    EntryInput(id="tides:1", text="High water comes twelve hours and a half after the last one."),
    EntryInput(id="tides:2", text="Ships with a deep draught wait for high water in the harbour."),
)

EXPECTED_HITS = [
    ("sextant", 3.805789, 0.792191, 0.032786885),
    ("ship:01", 0.218281, 0.496294, 0.031746032),
    ("ship:00", 0.218281, 0.486148, 0.030414747),
    ("ship:10", 0.218281, 0.494395, 0.029273504),
    ("ship:11", 0.218281, 0.490283, 0.028624003),
]
"""Id, and the scores by words, by vectors and of both."""


async def build_index(store: ReadModelStore) -> IndexHarness:
    index = IndexHarness(store)
    await index.knowledge.put_entries("cases", *CASES)
    await index.knowledge.put_entries("docs", *DOCUMENTS)
    await index.rebuild()
    return index


async def test_search_matches_words_and_meaning_and_scores_every_hit(
    store: ReadModelStore,
) -> None:
    index = await build_index(store)
    result = await index.search("Which ships are late?", "cases", "docs")
    best = result.hits[0]
    assert (best.collection, best.entry_id, best.kind) == ("cases", "late-ships", "case")
    assert best.text == CASES[0].text
    assert (best.title, best.digest) == (CASES[0].title, compute_digest(CASES[0].text))
    assert (best.revision, best.efficiency, best.feedback) == (1, 0.9, 0)
    assert best.vector_score == best.confidence
    assert 0.3 < best.confidence < 1
    assert result.embedder.startswith("wordllama-")
    assert result.index_version.endswith("-3")
    assert result.positions.knowledge == 2
    fused = [hit.fused_score for hit in result.hits]
    assert fused == sorted(fused, reverse=True)
    # No word of the question is in this entry: only its meaning finds it.
    found = {hit.entry_id: hit for hit in await index.find_hits("corn market quotation", "cases")}
    assert found["wheat-price"].lexical_score is None
    assert (await index.find_ids("corn market quotation", "cases"))[0] == "wheat-price"


async def test_title_of_a_case_finds_it_with_full_confidence(
    store: ReadModelStore,
) -> None:
    index = await build_index(store)
    for case in CASES:
        (best, *_) = await index.find_hits(case.title, "cases")
        assert best.entry_id == case.id
        assert best.confidence > 0.999


async def test_search_returns_only_entries_that_match_its_filters(store: ReadModelStore) -> None:
    index = await build_index(store)
    question = "ships in the harbour"
    assert set(await index.find_ids(question, "docs")) == {"tides:1", "tides:2"}
    both = await index.find_hits(question, "cases", "docs", kinds=("document",))
    assert {hit.kind for hit in both} == {"document"}
    assert set(await index.find_ids(question, "cases", "docs", min_efficiency=0.5)) == {
        "late-ships",
        "tides:1",
        "tides:2",
    }
    assert len(await index.find_ids(question, "cases", "docs", limit=2)) == 2
    assert await index.find_ids(question, "no-such-collection") == []
    assert await index.find_ids(question) == []


async def test_query_with_search_syntax_is_treated_as_plain_text(
    store: ReadModelStore,
) -> None:
    index = await build_index(store)
    for query in (
        '"',
        "ships AND (",
        "title:ships*",
        "'; --",
        "the",
        "NEAR(ships)",
        "a & | !",
        "é",
    ):
        await index.find_ids(query, "cases")
    assert (await index.find_ids('late "ships" OR', "cases"))[0] == "late-ships"
    assert len(await index.find_ids("   ", "cases")) <= 3


async def test_index_rebuilt_from_the_log_gives_the_same_hits(
    store: ReadModelStore,
) -> None:
    index = IndexHarness(store)
    projector = index.build_projector()
    async with run_tasks(projector.run()):
        await index.knowledge.put_entries("cases", *CASES)
        await index.knowledge.put_entries("docs", *DOCUMENTS)
        await index.knowledge.put_entries("cases", replace(CASES[1], text="Ask a ship broker."))
        await index.knowledge.remove_entries("docs", "tides:1")
        await index.knowledge.put_entries("docs", DOCUMENTS[0])
        await index.knowledge.remove_entries("cases", "berth-plan")
        questions = ("late ships", "grain price", "high water", "a long berth", "broker")
        live = [await index.find_hits(each, "cases", "docs") for each in questions]
    await index.rebuild()
    again = [await index.find_hits(each, "cases", "docs") for each in questions]
    fresh = IndexHarness(store, index.knowledge)
    assert again == live
    assert [await fresh.find_hits(each, "cases", "docs") for each in questions] == live
    assert all(live)


async def test_removed_and_edited_texts_leave_the_index(store: ReadModelStore) -> None:
    index = await build_index(store)
    assert "wheat-price" in await index.find_ids("wheat tonne exchange", "cases")
    async with run_tasks(index.build_projector().run()):
        await index.knowledge.remove_entries("cases", "wheat-price")
        await index.knowledge.put_entries("cases", replace(CASES[0], text="Ask the pilot."))
        hits = await index.find_hits("wheat tonne exchange arrival times", "cases")
    assert {hit.entry_id for hit in hits} == {"late-ships", "berth-plan"}
    assert "arrival" not in "".join(hit.text for hit in hits)
    assert all(hit.lexical_score is None for hit in hits)
    async with store.open_reader() as connection:
        assert await connection.scalar(text("SELECT count(*) FROM knowledge_entries")) == 4
        assert await connection.scalar(text("SELECT count(*) FROM knowledge_texts")) == 4
        contents = await connection.execute(text("SELECT content FROM knowledge_entries"))
        assert "exchange" not in "".join(contents.scalars())


async def test_an_erased_text_is_not_found_after_a_rebuild(store: ReadModelStore) -> None:
    index = await build_index(store)
    blobs = index.knowledge.blobs
    assert isinstance(blobs, MemoryBlobStore)
    blobs.blobs.pop(("t", compute_digest(CASES[0].text)))
    await index.rebuild()
    assert "late-ships" not in await index.find_ids("late ships", "cases")


async def test_search_returns_no_entries_of_another_tenant(store: ReadModelStore) -> None:
    log, blobs = MemoryLog(kind=LIBRARY_HISTORY), MemoryBlobStore()
    own = IndexHarness(store, KnowledgeHarness(log=log, blobs=blobs, tenant="ours"))
    other = IndexHarness(store, KnowledgeHarness(log=log, blobs=blobs, tenant="theirs"))
    await own.knowledge.put_entries("cases", *CASES[:2])
    await own.rebuild()
    alone = await own.find_hits("late ships and wheat", "cases")
    # More texts with the same words would change how BM25 weighs them, if they were seen.
    more = (EntryInput(id=f"secret-{n}", text=f"late ships secret {n}") for n in range(30))
    await other.knowledge.put_entries("cases", *more)
    await own.rebuild()
    assert await own.find_hits("late ships and wheat", "cases") == alone
    found = await other.find_ids("wheat price late ships secret", "cases", limit=24)
    assert found
    assert all(each.startswith("secret-") for each in found)


async def test_votes_are_summed_and_negative_entries_can_be_excluded(store: ReadModelStore) -> None:
    index = await build_index(store)
    await record_votes(store, {"s1": -1, "s2": -1, "s3": 1}, "late-ships")
    await record_votes(store, {"s4": 1}, "berth-plan")
    hits = {hit.entry_id: hit for hit in await index.find_hits("late ships berth", "cases")}
    votes = {name: hit.feedback for name, hit in hits.items()}
    assert votes["late-ships"] == -1
    assert votes["berth-plan"] == 1
    allowed = await index.find_ids("late ships berth", "cases", exclude_negative=True)
    assert "late-ships" not in allowed
    assert "berth-plan" in allowed


async def test_newest_ten_votes_are_named_newest_first_and_the_others_counted(
    store: ReadModelStore,
) -> None:
    index = await build_index(store)
    await record_votes(store, {f"s{n}": -1 for n in range(12)}, "late-ships")
    (best, *_) = await index.find_hits("late ships", "cases")
    assert (best.entry_id, best.feedback, best.more_votes) == ("late-ships", -12, 2)
    newest = [(f"s{n}", 100 + n, -1) for n in range(11, 1, -1)]
    assert [(each.session, each.sequence, each.vote) for each in best.votes] == newest


@pytest.mark.parametrize(
    ("own", "total", "named"),
    [
        (1, 1, [(50, 1)]),
        (-1, -1, [(50, -1)]),
        (0, -1, [(100, -1), (50, 0)]),
        (None, -1, [(100, -1)]),
    ],
)
async def test_vote_on_an_entry_counts_in_place_of_the_vote_on_its_turn_until_it_is_taken_back(
    store: ReadModelStore, own: int | None, total: int, named: list[tuple[int, int]]
) -> None:
    index = await build_index(store)
    await record_votes(store, {"s0": -1}, "late-ships")
    async with store.open_writer() as connection:
        given = None if own is None else 50
        values = {"vote": own, "vote_sequence": given, "vote_position": given}
        await connection.execute(RETRIEVED_ENTRIES.update().values(values))
    (best, *_) = await index.find_hits("late ships", "cases")
    assert (best.entry_id, best.feedback) == ("late-ships", total)
    assert [(each.sequence, each.vote) for each in best.votes] == named
    allowed = await index.find_ids("late ships", "cases", exclude_negative=True)
    assert ("late-ships" in allowed) == (total > 0)


async def test_vote_of_an_earlier_release_counts_without_being_named(
    store: ReadModelStore,
) -> None:
    index = await build_index(store)
    await record_votes(store, {"s0": -1, "s1": -1}, "late-ships")
    async with store.open_writer() as connection:
        old = TURN_VOTES.update().where(TURN_VOTES.c.session == "s0")
        await connection.execute(old.values(sequence=None, position=None))
    (best, *_) = await index.find_hits("late ships", "cases")
    assert [each.session for each in best.votes] == ["s1"]
    assert (best.feedback, best.more_votes) == (-2, 1)


async def record_votes(store: ReadModelStore, votes: dict[str, int], entry: str) -> None:
    """Write the rows of turns that retrieved an entry and were judged, one after the other."""
    async with store.open_writer() as connection:
        found = await connection.execute(
            PROJECTIONS.select().where(PROJECTIONS.c.name == SESSIONS_PROJECTION)
        )
        if found.one_or_none() is None:
            row = {"name": SESSIONS_PROJECTION, "build": 1, "version": 1, "stream": "SESSIONS"}
            rest = {"created": "2026-01-01T00:00:00Z", "position": 7, "active": True}
            await connection.execute(insert(PROJECTIONS).values(**row, **rest))
        for place, (session, vote) in enumerate(votes.items(), start=100):
            turn = {"build": 1, "tenant": "t", "session": session, "turn": 1}
            voted = {"vote": vote, "sequence": place, "position": place}
            await connection.execute(insert(TURN_VOTES).values(**turn, **voted))
            used = {"collection": "cases", "entry": entry}
            await connection.execute(insert(RETRIEVED_ENTRIES).values(**turn, **used))


async def test_filtered_out_entries_do_not_displace_matching_ones(store: ReadModelStore) -> None:
    index = IndexHarness(store)
    many = (
        EntryInput(id=f"e{n:03}", text="late ships in the harbour", kind="case", efficiency=0.1)
        for n in range(150)
    )
    await index.knowledge.put_entries("cases", *many)
    last = EntryInput(
        id="z-good", text="late ships in the harbour today", kind="case", efficiency=0.9
    )
    await index.knowledge.put_entries("cases", last)
    await index.rebuild()
    assert await index.find_ids("late ships", "cases", min_efficiency=0.8) == ["z-good"]
    ties = await index.find_ids("late ships in the harbour", "cases", limit=5)
    assert ties == ["e000", "e001", "e002", "e003", "e004"]


async def test_both_databases_give_the_same_hits_order_and_scores(
    store: ReadModelStore,
) -> None:
    index = await build_index(store)
    # A rare word weighs more than one that nearly all have.
    many = (EntryInput(id=f"ship:{n:02}", text=f"Ship {n} lies in the harbour.") for n in range(30))
    await index.knowledge.put_entries("docs", *many)
    await index.knowledge.put_entries(
        "docs", EntryInput(id="sextant", text="A sextant, on a ship.")
    )
    await index.rebuild()
    hits = await index.find_hits("ships with a sextant in the harbour", "cases", "docs", limit=5)
    assert [
        (hit.entry_id, hit.lexical_score, hit.vector_score, hit.fused_score) for hit in hits
    ] == EXPECTED_HITS


async def test_search_ahead_of_the_index_raises_unavailable(store: ReadModelStore) -> None:
    index = await build_index(store)
    index.searching.position_timeout = 0.05
    for ahead in (IndexPositions(knowledge=99), IndexPositions(votes=99)):
        request = SearchRequest(
            tenant="t", collections=("cases",), text="ships", min_positions=ahead
        )
        with pytest.raises(Unavailable, match="are behind 99"):
            await index.searching.search(request)


async def test_search_before_the_index_is_complete_raises_unavailable(
    store: ReadModelStore,
) -> None:
    index = IndexHarness(store)
    index.searching.position_timeout = 0.05
    with pytest.raises(Unavailable, match="no projector"):
        await index.find_ids("ships", "cases")
    await index.rebuild()
    async with store.open_writer() as connection:
        await connection.execute(text("UPDATE knowledge_index SET complete = :no"), {"no": False})
    with pytest.raises(Unavailable, match="being built"):
        await index.find_ids("ships", "cases")
    index.searching.position_timeout = 60
    async with run_tasks(index.build_projector().run()):
        await index.knowledge.put_entries("cases", *CASES)
        assert await index.find_ids("late ships", "cases")


async def test_projector_refuses_to_continue_the_index_of_another_log(
    store: ReadModelStore,
) -> None:
    await build_index(store)
    other = IndexHarness(
        store, KnowledgeHarness(log=MemoryLog(created="2030-01-01T00:00:00Z", kind=LIBRARY_HISTORY))
    )
    await other.knowledge.put_entries("cases", *CASES)
    with pytest.raises(Corrupt, match="rebuild"):
        await other.build_projector().run()
    rolled_back = IndexHarness(store)
    await rolled_back.knowledge.put_entries("cases", CASES[0])
    with pytest.raises(Corrupt, match="it ends before 2"):
        await rolled_back.build_projector().run()


async def test_two_projectors_build_the_same_index_as_one(store: ReadModelStore) -> None:
    index = IndexHarness(store)
    second = IndexHarness(store, index.knowledge)
    async with run_tasks(index.build_projector().run(), second.build_projector().run()):
        for entry in (*CASES, *DOCUMENTS):
            await index.knowledge.put_entries("all", entry)
        live = await index.find_hits("ships in the harbour", "all")
    await index.rebuild()
    assert await index.find_hits("ships in the harbour", "all") == live
    async with store.open_reader() as connection:
        at = await read_knowledge_position(connection)
    assert at is not None
    assert at.position == 5
