"""The ranking by words: BM25, whatever became of the entries before."""

from __future__ import annotations

import math
import re
from random import Random

import numpy as np

from turnlog.projections.store.knowledge.entry_words import encode_words, list_query_words
from turnlog.projections.store.knowledge.word_postings import WordPostings

TEXTS = (
    ("Late ships", "A ship that is late waits for the tide."),
    ("Berths", "A long ship has a long berth."),
    ("", "Wheat is weighed on the quay."),
    ("Tide", "The tide, the tide, and again the tide."),
)


def build_postings(texts: tuple[tuple[str, str], ...]) -> WordPostings:
    return WordPostings().add_entries([encode_words(*each) for each in texts])


def compute_naively(query: str, texts: tuple[tuple[str, str], ...]) -> list[float]:
    """Return BM25 of words that need no stemming."""
    entries = [re.findall(r"\w+", f"{title} {title} {text}".lower()) for title, text in texts]
    average = sum(map(len, entries)) / len(entries)
    scores = [0.0] * len(texts)
    for word in query.split():
        having = sum(word in words for words in entries)
        rarity = math.log(1 + (len(entries) - having + 0.5) / (having + 0.5))
        for place, words in enumerate(entries):
            often = words.count(word)
            norm = 1.2 * (1 - 0.75 + 0.75 * len(words) / average)
            scores[place] += rarity * often * 2.2 / (often + norm)
    return scores


def test_scores_follow_bm25_with_titles_counted_twice() -> None:
    scores = build_postings(TEXTS).compute_scores(list_query_words("tide long wheat"))
    assert np.allclose(scores, compute_naively("tide long wheat", TEXTS))
    assert build_postings(TEXTS).compute_scores(list_query_words("sextant")).tolist() == [0.0] * 4


def test_rare_term_weighs_more_than_a_term_of_nearly_all_entries() -> None:
    texts = (*((f"Ship {n}", "A ship in the harbour.") for n in range(40)), ("", "A sextant."))
    scores = build_postings(texts).compute_scores(list_query_words("ship sextant"))
    assert int(scores.argmax()) == len(texts) - 1
    assert scores.min() > 0


def test_query_terms_are_normalised_to_english_stems() -> None:
    assert list_query_words("Ships DEPARTED") == list_query_words("ship, departing!")
    assert list_query_words("café") == list_query_words("CAFE\N{COMBINING ACUTE ACCENT}")
    assert list_query_words("list_ships") == list_query_words("list ships")
    assert list_query_words("who is it") == list_query_words("Who is it?") != []
    assert list_query_words("the ship of the port") == list_query_words("ship port")
    assert list_query_words(" ,;") == []


def test_incrementally_built_postings_score_like_those_built_at_once() -> None:
    random = Random(3)  # noqa: S311 - the same histories each time
    words = [f"word{number}" for number in range(30)]
    query = list_query_words(" ".join(words[:8]))
    for _ in range(20):
        postings, texts = WordPostings(), list[tuple[str, str]]()
        for _ in range(30):
            if texts and random.random() < 0.3:
                kept = [random.random() < 0.8 for _ in texts]
                postings = postings.keep_entries(np.array(kept))
                texts = [text for text, is_kept in zip(texts, kept, strict=True) if is_kept]
            else:
                new = [
                    ("", " ".join(random.choices(words, k=random.randint(0, 9))))
                    for _ in range(random.randint(1, 6))
                ]
                postings = postings.add_entries([encode_words(*each) for each in new])
                texts += new
        at_once = build_postings(tuple(texts))
        assert postings.compute_scores(query).tolist() == at_once.compute_scores(query).tolist()
        assert len(postings.segments) < 8
