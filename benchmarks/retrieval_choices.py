"""What the fusion of words and vectors could be instead: `python -m benchmarks.retrieval_choices`.

On the questions of the family `retrieval`, whose figures say how well the search finds that there
is. Each line is one change of it.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.figures.retrieval import list_chunks
from benchmarks.support.retrieval_questions import QUESTIONS, Question
from turnlog.projections.knowledge.knowledge_inputs import EntryInput
from turnlog.projections.store.knowledge.entry_words import encode_words, list_query_words
from turnlog.projections.store.knowledge.index_search import RANKING_DEPTH
from turnlog.projections.store.knowledge.word_postings import WordPostings
from turnlog.services.knowledge.embedders import CheckedEmbedder

Scores = NDArray[np.floating[Any]]


def main() -> None:
    """Print a line for each choice."""
    chunks = list_chunks()
    whole = asyncio.run(_embed([f"{each.title}\n{each.text}".strip() for each in chunks]))
    titles = asyncio.run(_embed([each.title for each in chunks]))
    questions = asyncio.run(_embed([each.text for each in QUESTIONS]))
    postings = WordPostings().add_entries([encode_words(e.title, e.text) for e in chunks])
    words = [postings.compute_scores(list_query_words(each.text)) for each in QUESTIONS]
    vectors = [whole @ each for each in questions]
    apart = [(whole + titles) @ each for each in questions]
    choices: dict[str, Iterable[Scores]] = {
        "words alone": words,
        "vectors alone": vectors,
        "fused, as it is": _fuse(words, vectors),
        "ranks count by 1 / (10 + rank)": _fuse(words, vectors, constant=10),
        "ranks count by 1 / (120 + rank)": _fuse(words, vectors, constant=120),
        "vectors count twice": _fuse(words, vectors, weight=2),
        "words count twice": _fuse(words, vectors, weight=0.5),
        "scores are added, each from 0 to 1": _add(words, vectors),
        "title and text embedded apart, and added": _fuse(words, apart),
    }
    for name, scored in choices.items():
        ranks = [
            _find_rank(scores, question, chunks)
            for scores, question in zip(scored, QUESTIONS, strict=True)
        ]
        print(f"{name:42}", *(f"{figure:.2f}" for figure in _rate(ranks)))


async def _embed(texts: Sequence[str]) -> Scores:
    return np.array(await CheckedEmbedder().embed_texts(texts))


def _fuse(
    words: Sequence[Scores], vectors: Sequence[Scores], *, constant: int = 60, weight: float = 1
) -> Iterable[Scores]:
    for by_words, by_vectors in zip(words, vectors, strict=True):
        fused = np.zeros(len(by_words))
        for scores, counts in ((by_words, 1.0), (by_vectors, weight)):
            best = np.argsort(-scores, kind="stable")[:RANKING_DEPTH]
            found = best[scores[best] != 0]
            fused[found] += counts / (constant + 1 + np.arange(len(found)))
        yield fused


def _add(words: Sequence[Scores], vectors: Sequence[Scores]) -> Iterable[Scores]:
    for by_words, by_vectors in zip(words, vectors, strict=True):
        yield by_words / (by_words.max() or 1) + np.interp(
            by_vectors, (by_vectors.min(), by_vectors.max()), (0, 1)
        )


def _find_rank(scores: Scores, question: Question, chunks: Sequence[EntryInput]) -> int | None:
    order: list[int] = np.argsort(-scores, kind="stable").tolist()
    for rank, place in enumerate(order, start=1):
        heading = chunks[place].title.rpartition(" > ")[2]
        for page, begin in question.expected:
            if scores[place] > 0 and chunks[place].source == page and heading.startswith(begin):
                return rank
    return None


def _rate(ranks: Sequence[int | None]) -> tuple[float, float, float]:
    """Return recall@5, mean reciprocal rank and recall@10."""
    first_five, first_ten = (
        sum(rank is not None and rank <= depth for rank in ranks) / len(ranks) for depth in (5, 10)
    )
    return first_five, statistics.mean(1 / rank if rank else 0.0 for rank in ranks), first_ten


if __name__ == "__main__":
    main()
