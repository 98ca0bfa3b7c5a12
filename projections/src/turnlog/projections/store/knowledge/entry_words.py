"""The words of entries and queries, and how the index stores them.

They are the same on every database, because the database has no part in them: runs of letters and
digits, without case and accents, reduced to English stems. An entry's words are stored as pairs of
a 64-bit digest and a count, so that they are loaded without being read one by one.
"""

from __future__ import annotations

import re
import struct
import unicodedata
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from importlib import import_module
from typing import Any, Final

TITLE_WEIGHT: Final = 2
"""How many times a word in the title counts."""

MAX_QUERY_WORDS: Final = 64
"""The words of a query that count, the first ones; a query is a question, not a document."""

_MAX_COUNT: Final = 0xFFFF

_WORD: Final = re.compile(r"[^\W_]+")

_STOP_WORDS: Final = frozenset(
    """
    a about after all also am an and any are as at be because been before being between both
    but by can could did do does doing down during each few for from further get had has have
    having he her here hers him his how i if in into is it its itself just me more most my no
    nor not now of off on once only or other our out over own please same she should so some
    such than that the their them then there these they this those through to too under until
    up very was we were what when where which while who whom why will with would you your
    """.split()  # noqa: SIM905 - a hundred lines otherwise
)
"""Words that nearly every text has."""


def encode_words(title: str, text: str) -> bytes:
    """Return the words of an entry: for each its digest in 8 bytes and its count in 2."""
    counts = Counter(map(_digest_word, _split_words(text)))
    for word in map(_digest_word, _split_words(title)):
        counts[word] += TITLE_WEIGHT
    pairs = (part for word, count in counts.items() for part in (word, min(count, _MAX_COUNT)))
    return struct.pack("<" + "QH" * len(counts), *pairs)


def list_query_words(query: str) -> list[int]:
    """Return the digests of the distinct words of a query that may find something.

    A word that nearly every text has is no reason to find any, unless there is no other word.
    """
    words = _split_words(query)
    telling = [word for word in words if word not in _STOP_WORDS]
    return _list_distinct(map(_digest_word, telling or words))[:MAX_QUERY_WORDS]


def _list_distinct(digests: Iterable[int]) -> list[int]:
    return list(dict.fromkeys(digests))


def _split_words(text: str) -> list[str]:
    parted = unicodedata.normalize("NFKD", text.casefold())
    return _WORD.findall("".join(each for each in parted if not unicodedata.combining(each)))


# The library has no types.
_SNOWBALL: Any = import_module("Stemmer")


@lru_cache(maxsize=65_536)
def _digest_word(word: str) -> int:
    # Two threads cannot share a stemmer, and another one costs as much as a word.
    stem = str(_SNOWBALL.Stemmer("english").stemWord(word))
    return int.from_bytes(blake2b(stem.encode(), digest_size=8).digest(), "little")
