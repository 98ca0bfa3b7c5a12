"""Trim steps on the pieces of one layer: shorten texts, and drop or replace segments.

Sentence ends are found by a rule of our own and not by a trained model: a recorded prompt must
always come out the same, and a model's sentences change with its next release.
"""

from __future__ import annotations

import re
from typing import Final, Literal

_CLOSING: Final = r"""["'\u201d\u2019\u00bb)\]]*"""
_WIDE_CLOSING: Final = r"""["'\u201d\u2019\u00bb\u300d\u300f\uff09)\]]*"""
_SENTENCE: Final = re.compile(
    # A lower-case letter after it continues the sentence: `e.g. this`.
    rf"(?<![.!?\u2026])[.!?\u2026]++{_CLOSING}(?=\s+[^a-z\s]|\s*\Z)"
    # East Asian sentence ends need no space after them.
    rf"|[\u3002\uff01\uff1f\uff61]++{_WIDE_CLOSING}"
    # The end of a line.
    r"|(?<=\S)(?=\s*\n)"
)
_WORD: Final = re.compile(r"(?<=\S)(?=\s)")


def truncate_text(text: str, most: int, at: Literal["sentence", "word"]) -> str:
    """Return the longest beginning of `most` characters that ends with a sentence or word.

    If there is no such end the next smaller unit is used: a sentence, a word, a character.
    """
    if len(text) <= most:
        return text
    head = text[:most]
    patterns = (_SENTENCE, _WORD) if at == "sentence" else (_WORD,)
    # The next characters decide whether the last sentence or word is complete.
    ends = (_find_last_end(pattern, text[: most + 2], most) for pattern in patterns)
    end = next((end for end in ends if end), most)
    return head[:end].rstrip() or head


def _find_last_end(pattern: re.Pattern[str], text: str, most: int) -> int:
    """Return the end of the last match within `most` characters, or 0."""
    return max((found.end() for found in pattern.finditer(text) if found.end() <= most), default=0)
