"""The knowledge search: how well it finds, on questions about our docs, and how fast."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final

from benchmarks.figure_types import BenchmarkTerms, Figure, require_at_most
from benchmarks.support.random_prose import RandomProse
from benchmarks.support.retrieval_questions import QUESTIONS, Question
from tests.support.knowledge.indexed_knowledge import IndexHarness
from tests.support.knowledge.knowledge_harness import KnowledgeHarness
from tests.support.servers.postgres_server import prepare_server
from turnlog.events.store.memory_log import MemoryBlobStore, MemoryLog
from turnlog.events.subjects import LIBRARY_HISTORY
from turnlog.projections.knowledge.knowledge_inputs import EntryInput
from turnlog.projections.knowledge.search_port import KnowledgeHit
from turnlog.projections.store.engine import ReadModelStore, open_store
from turnlog.services.cli.knowledge.markdown_chunks import split_markdown

DOCS: Final = Path(__file__).parents[2] / "docs"

CASES: Final = 100_000

SEARCHES: Final = 40

PUT_BATCH: Final = 5_000

DEPTH: Final = 5
"""The hits that recall looks at."""

RankHits = Callable[[Sequence[KnowledgeHit]], list[KnowledgeHit]]


async def measure_figures(terms: BenchmarkTerms) -> Sequence[Figure]:
    """Measure quality and speed on both databases."""
    count = CASES if terms.long else CASES // 10
    # Tenants of their own, so that the cases do not change how rare a word of the docs is.
    log, blobs = MemoryLog(kind=LIBRARY_HISTORY), MemoryBlobStore()
    docs = KnowledgeHarness(log=log, blobs=blobs, tenant="docs")
    cases = KnowledgeHarness(log=log, blobs=blobs, tenant="cases")
    await docs.put_entries("docs", *list_chunks())
    await _put_cases(cases, count)
    figures: list[Figure] = []
    sqlite = open_store(f"sqlite:///{terms.folder / 'rows.db'}")
    indexes = IndexHarness(sqlite, docs), IndexHarness(sqlite, cases)
    figures += await _measure_database("SQLite", *indexes, count, terms.runs)
    await sqlite.close()
    async with _run_postgres() as postgres:
        indexes = IndexHarness(postgres, docs), IndexHarness(postgres, cases)
        figures += await _measure_database("Postgres", *indexes, count, terms.runs)
    return figures


@asynccontextmanager
async def _run_postgres() -> AsyncGenerator[ReadModelStore]:
    with tempfile.TemporaryDirectory(prefix="turnlog-") as folder:
        server = prepare_server(Path(folder))
        server.create_cluster()
        server.start_server()
        try:
            await server.execute_statement("CREATE DATABASE retrieval")
            store = open_store(server.build_url("retrieval"))
            yield store
            await store.close()
        finally:
            server.stop_server()


async def _measure_database(
    name: str, docs: IndexHarness, cases: IndexHarness, count: int, runs: int
) -> list[Figure]:
    began = time.perf_counter()
    await cases.rebuild()  # of all tenants
    took = time.perf_counter() - began
    indexed = f"{count:,} cases of 300 characters embedded and indexed from the log in memory"
    times = [await _measure_searches(cases) for _ in range(runs)]
    searched = f"a search over {count:,} cases of 300 characters, ten words, p50 of {SEARCHES}"
    return [
        *await _measure_quality(name, docs),
        Figure(name=f"index on {name}", measured=indexed, unit="entries/s", runs=(count / took,)),
        Figure(
            name=f"search on {name}",
            measured=searched,
            unit="ms",
            runs=tuple(times),
            target=require_at_most(50),
        ),
    ]


def list_chunks() -> list[EntryInput]:
    """Return the sections of the docs as entries."""
    return [
        EntryInput(id=f"{file.stem}:{number}", text=chunk.text, title=chunk.title, source=file.name)
        for file in sorted(DOCS.glob("*.md"))
        if file.name not in {"bench.md", "recipes.md", "requirements.md"}
        for number, chunk in enumerate(split_markdown(file.read_text()))
    ]


async def _measure_quality(name: str, index: IndexHarness) -> list[Figure]:
    """Return recall and mean reciprocal rank of each ranking alone and of both."""
    titles = {entry.id: (entry.source, entry.title) for entry in list_chunks()}
    rankings: dict[str, RankHits] = {
        "words alone": lambda hits: _order(hits, lambda hit: hit.lexical_score),
        "vectors alone": lambda hits: _order(hits, lambda hit: hit.vector_score),
        "both, fused": lambda hits: _order(hits, lambda hit: hit.fused_score),
    }
    ranks: dict[str, list[int | None]] = {ranking: [] for ranking in rankings}
    for question in QUESTIONS:
        hits = await index.find_hits(question.text, "docs", limit=1_000)
        for ranking, rank_hits in rankings.items():
            ranks[ranking].append(_find_rank(rank_hits(hits), question, titles))
    return [
        figure
        for ranking, found in ranks.items()
        for figure in _build_quality_figures(name, ranking, found)
    ]


def _order(
    hits: Sequence[KnowledgeHit], score: Callable[[KnowledgeHit], float | None]
) -> list[KnowledgeHit]:
    ranked = [hit for hit in hits if score(hit) is not None]
    return sorted(ranked, key=lambda hit: (-(score(hit) or 0), hit.entry_id))


def _find_rank(
    hits: Sequence[KnowledgeHit], question: Question, titles: dict[str, tuple[str | None, str]]
) -> int | None:
    for rank, hit in enumerate(hits, start=1):
        source, title = titles[hit.entry_id]
        heading = title.rpartition(" > ")[2]
        if any(source == page and heading.startswith(begin) for page, begin in question.expected):
            return rank
    return None


def _build_quality_figures(name: str, ranking: str, ranks: Sequence[int | None]) -> list[Figure]:
    about = f"{len(QUESTIONS)} questions on our docs, {ranking}, {name}"
    recall = sum(rank is not None and rank <= DEPTH for rank in ranks) / len(ranks)
    reciprocal = statistics.mean(1 / rank if rank else 0.0 for rank in ranks)
    return [
        Figure(
            name=f"recall@{DEPTH} {ranking}, {name}",
            measured=f"expected section among {DEPTH}: {about}",
            unit="share",
            runs=(recall,),
        ),
        Figure(
            name=f"MRR {ranking}, {name}",
            measured=f"mean reciprocal rank: {about}",
            unit="share",
            runs=(reciprocal,),
        ),
    ]


async def _put_cases(knowledge: KnowledgeHarness, count: int) -> None:
    prose = RandomProse(7)
    for start in range(0, count, PUT_BATCH):
        entries = (
            EntryInput(
                id=f"case-{number:06}",
                text=prose.generate_text(300),
                kind="case",
                title=prose.generate_text(60),
                efficiency=number % 100 / 100,
            )
            for number in range(start, min(start + PUT_BATCH, count))
        )
        await knowledge.put_entries("cases", *entries)


async def _measure_searches(index: IndexHarness) -> float:
    """Return the median milliseconds of a search, with the matrix of vectors in memory."""
    prose, random = RandomProse(11), Random(5)  # noqa: S311 - the same questions each time
    await index.find_hits("warm", "cases")
    taken: list[float] = []
    for _ in range(SEARCHES):
        question = prose.generate_text(random.randint(50, 70))
        began = time.perf_counter()
        await index.find_hits(question, "cases", limit=10, exclude_negative=True)
        taken.append((time.perf_counter() - began) * 1_000)
    return statistics.median(taken)
