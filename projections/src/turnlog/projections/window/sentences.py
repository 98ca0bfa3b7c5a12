"""Sentences: where a text that is too long may end.

A rule of our own and no trained model: a recorded prompt must come out the same for ever, and
what a model takes for a sentence changes with its next release.
"""

from __future__ import annotations

import re
from typing import Final, Literal

_CLOSING: Final = r"""["'\u201d\u2019\u00bb)\]]*"""
_WIDE_CLOSING: Final = r"""["'\u201d\u2019\u00bb\u300d\u300f\uff09)\]]*"""
_SENTENCE: Final = re.compile(
    # A small letter behind it goes on with the sentence: `e.g. this`
    rf"(?<![.!?\u2026])[.!?\u2026]++{_CLOSING}(?=\s+[^a-z\s]|\s*\Z)"
    # Those of East Asia need no blank behind them
    rf"|[\u3002\uff01\uff1f\uff61]++{_WIDE_CLOSING}"
    # A line that ends
    r"|(?<=\S)(?=\s*\n)"
)
_WORD: Final = re.compile(r"(?<=\S)(?=\s)")


def beginning(text: str, most: int, at: Literal["sentence", "word"]) -> str:
    """Give as much of the beginning of a text as `most` characters hold, and a sentence or word.

    Where there is no such place the next smaller one is taken: a sentence, a word, a character.
    """
    if len(text) <= most:
        return text
    head = text[:most]
    patterns = (_SENTENCE, _WORD) if at == "sentence" else (_WORD,)
    # What comes next decides whether the last sentence or word was a whole one
    ends = (_last(pattern, text[: most + 2], most) for pattern in patterns)
    end = next((end for end in ends if end), most)
    return head[:end].rstrip() or head


def _last(pattern: re.Pattern[str], text: str, most: int) -> int:
    """Give where the last match that is within `most` ends; 0 where there is none."""
    return max((found.end() for found in pattern.finditer(text) if found.end() <= most), default=0)
