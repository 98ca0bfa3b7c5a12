"""Where the sentences of a growing text end, in every script.

The marks are those of Unicode's property `Sentence_Break` (UAX #29). A boundary that is found too
early only shortens a piece that is held back, so no language's abbreviations are needed. What the
ladder cuts is another matter: its rule is part of every recorded prompt (`layer_trim_steps`).
"""

from __future__ import annotations

from typing import Final

import regex

_END: Final = regex.compile(
    # Beside a Latin full stop may stand more of a number or a name: white space decides.
    r"[.!?\u2024\u2026\p{SB=ATerm}]\p{SB=Close}*+\s"
    # The marks of other scripts end a sentence by themselves.
    r"|[\p{SB=STerm}--[!?]]\p{SB=Close}*+"
    r"|\n",
    flags=regex.VERSION1,
)

_OPEN_END: Final = regex.compile(r"[.!?\u2026\p{SB=ATerm}]\p{SB=Close}*+\Z", flags=regex.VERSION1)

_REACH: Final = 16
"""Characters at the end of a text in which its last mark is looked for."""


def find_last_end(text: str) -> int:
    """Return the end of the last sentence that a text completes; 0 if there is none."""
    return max((found.end() for found in _END.finditer(text)), default=0)


def has_open_end(text: str) -> bool:
    """Return whether a sentence ends with this text if white space comes next."""
    # Only the end matters, and searching backwards would read the whole of it.
    return _OPEN_END.search(text[-_REACH:]) is not None
