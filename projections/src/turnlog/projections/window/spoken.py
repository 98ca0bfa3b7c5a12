"""What was said in a turn, as every window that shows the turn says it.

A turn stands in hundreds of prompts, and in each of them word for word. So its messages are made
once, by its words alone, and what digests are made from is remembered with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from turnlog.events.content import Digest, digest_of
from turnlog.projections.window.request import ChatMessage

SHORT: Final = 8_000
"""Characters of a turn that is remembered."""
REMEMBERED: Final = 4_096
"""How many are."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """What was asked in a turn and what was answered."""

    messages: tuple[ChatMessage, ...]
    characters: int
    """Their length in code points."""
    line: str
    """What stands for them in the digest of a run: role and digest of each, one a line."""


def spoken(text: str, reply: str) -> Spoken:
    """Give the messages of a turn; what is empty is none."""
    short = len(text) + len(reply) <= SHORT
    return (_remembered if short else _spoken)(text, reply)


def _spoken(text: str, reply: str) -> Spoken:
    asked = (ChatMessage("user", text),) if text else ()
    said = (*asked, ChatMessage("assistant", reply)) if reply else asked
    lines = (f"{message.role} {message.digest}\n" for message in said)
    return Spoken(said, len(text) + len(reply), "".join(lines))


_remembered: Final = lru_cache(REMEMBERED)(_spoken)


def run_digest(run: Iterable[Spoken]) -> Digest:
    """Digest of a run of history."""
    return digest_of("".join([turn.line for turn in run]))
