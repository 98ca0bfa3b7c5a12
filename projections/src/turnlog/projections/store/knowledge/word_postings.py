"""The ranking of a tenant's entries by words: BM25 (Robertson and Zaragoza, 2009), in memory.

For each word there is a list of the entries that have it, with counts. All entries of the lists of
a query's words are scored, also where nearly every entry has a word: that takes a millisecond for
100,000 entries, so nothing has to be left out. Scores depend on the entries and on nothing else,
such as the order of changes, so that an index built again from the log gives the same.

New entries begin a segment of their own. Segments are merged when one is not twice as large as the
next, so each entry is merged a few times only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

_SATURATION: Final = 1.2
"""k1: how fast further occurrences of a word count less."""

_LENGTH_SHARE: Final = 0.75
"""b: how much the length of an entry counts."""

_STORED: Final = np.dtype([("word", "<u8"), ("count", "<u2")])
"""As `encode_words` has it."""

STORED_WORD_BYTES: Final = _STORED.itemsize
"""Bytes of a word of an entry as it is stored."""

Words = NDArray[np.uint64]
Places = NDArray[np.int32]
Counts = NDArray[np.uint16]
Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PostingSegment:
    """The words of some entries: lists of places and counts, one list after another."""

    words: Words
    """Ascending."""
    ends: NDArray[np.int64]
    """Where the list of each word ends."""
    places: Places
    """Places of entries in the index."""
    counts: Counts

    def find_entries(self, word: int) -> tuple[Places, Counts]:
        """Return the places of the entries that have a word, and how often."""
        at = int(np.searchsorted(self.words, np.uint64(word)))
        if at == len(self.words) or int(self.words[at]) != word:
            return self.places[:0], self.counts[:0]
        part = slice(int(self.ends[at - 1]) if at else 0, int(self.ends[at]))
        return self.places[part], self.counts[part]

    def keep_entries(self, kept: NDArray[np.bool_], moved: Places) -> PostingSegment:
        """Return the segment with the entries at some places only, at their new places."""
        inside = kept[self.places]
        places = moved[self.places[inside]]
        return _sort_segment(self.list_words()[inside], places, self.counts[inside])

    def list_words(self) -> Words:
        """Return the word of each place."""
        return np.repeat(self.words, np.diff(self.ends, prepend=0))


@dataclass(frozen=True, slots=True)
class WordPostings:
    """The words of a tenant's entries."""

    lengths: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """The words of each entry, with repetitions."""
    segments: tuple[PostingSegment, ...] = ()

    def add_entries(self, stored: Sequence[bytes]) -> WordPostings:
        """Return the postings with further entries, in the order of their places."""
        pairs = np.frombuffer(b"".join(stored), _STORED)
        sizes = np.fromiter((len(each) for each in stored), np.int64) // _STORED.itemsize
        owners = np.repeat(np.arange(len(stored), dtype=np.int32), sizes)
        lengths = np.bincount(owners, pairs["count"], len(stored)).astype(np.int64)
        first = np.int32(len(self.lengths))
        segments = [*self.segments, _sort_segment(pairs["word"], owners + first, pairs["count"])]
        while len(segments) > 1 and len(segments[-2].places) <= 2 * len(segments[-1].places):
            segments[-2:] = [_merge_segments(segments[-2:])]
        return WordPostings(np.concatenate([self.lengths, lengths]), tuple(segments))

    def keep_entries(self, kept: NDArray[np.bool_]) -> WordPostings:
        """Return the postings of those entries only, moved to their new places."""
        moved = np.cumsum(kept, dtype=np.int32) - np.int32(1)
        segments = [each.keep_entries(kept, moved) for each in self.segments]
        return WordPostings(self.lengths[kept], tuple(each for each in segments if len(each.words)))

    def compute_scores(self, words: Iterable[int]) -> Scores:
        """Return the score of each entry; 0 for one that has none of the words."""
        count = len(self.lengths)
        scores = np.zeros(count)
        if not self.lengths.any():
            return scores
        share = self.lengths * (count / int(self.lengths.sum()))
        norms = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * share)
        for word in words:
            found = [each.find_entries(word) for each in self.segments]
            having = sum(len(places) for places, _ in found)
            rarity = math.log1p((count - having + 0.5) / (having + 0.5))
            for places, counts in found:
                often = counts.astype(np.float64)
                scores[places] += rarity * often * (_SATURATION + 1) / (often + norms[places])
        return scores


def _sort_segment(words: Words, places: Places, counts: Counts) -> PostingSegment:
    order = np.argsort(words, kind="stable")
    ordered = words[order]
    distinct, sizes = np.unique_counts(ordered)
    return PostingSegment(distinct, np.cumsum(sizes), places[order], counts[order])


def _merge_segments(segments: Sequence[PostingSegment]) -> PostingSegment:
    return _sort_segment(
        np.concatenate([each.list_words() for each in segments]),
        np.concatenate([each.places for each in segments]),
        np.concatenate([each.counts for each in segments]),
    )
