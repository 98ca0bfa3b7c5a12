"""What was said in a turn, as every window that shows the turn says it.

A turn stands in hundreds of prompts, and in each of them word for word. So its messages are made
once, by its words alone, and what digests are made from is remembered with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from sys import getsizeof
from typing import Final

from turnlog.events.content import Digest, digest_of
from turnlog.events.manifest import Condensed
from turnlog.projections.window.counting import Counting
from turnlog.projections.window.request import ChatMessage

SHORT: Final = 3_000
"""Bytes that the words of a turn take in memory, for the turn to be remembered."""
REMEMBERED: Final = 4_096
"""How many are: 12 MB of words, and as much of what their digests are made from. That is more where
JSON spells a character by several; nobody can make it more than 90 MB."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """What was asked in a turn and what was answered."""

    messages: tuple[ChatMessage, ...]
    characters: int
    """Their length in code points."""
    line: str
    """What stands for them in the digest of a run: role and digest of each, one a line."""


@dataclass(frozen=True, slots=True)
class Retelling:
    """How turns are told that do not stand word for word."""

    last: int
    """The last of them."""
    condensed: Condensed
    """The rule by which they are had again."""
    rule: str
    """Why they are told so: a word of the view, or a step of a ladder."""
    again: tuple[int, ...] = ()
    """See `FromTurns.again`."""
    later: int | None = None
    """See `FromTurns.later`."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """The same as the turn of a view, and as one counter counts it."""

    turn: int
    said: Spoken
    tokens: int
    retelling: Retelling | None = None
    """How it stands for that turn, or for several, where not word for word."""
    saved: int = 0
    """Tokens that it takes less for that, where no step of a ladder says so."""

    @property
    def last(self) -> int:
        """The last turn it stands for."""
        return self.retelling.last if self.retelling else self.turn


def spoken(text: str, reply: str) -> Spoken:
    """Give the messages of a turn; what is empty is none."""
    return (_remembered if _short(text, reply) else _spoken)(text, reply)


def worked_out(work: str, reply: str) -> str:
    """Put how a turn was worked out in front of its reply."""
    return f"{work}\n\n{reply}"


def exchange(turn: int, text: str, reply: str, counting: Counting) -> Exchange:
    """Give a turn with what it takes."""
    made = _remembered_exchange if _short(text, reply) else _exchange
    return made(turn, text, reply, counting)


def _short(text: str, reply: str) -> bool:
    return getsizeof(text) + getsizeof(reply) <= SHORT


def _spoken(text: str, reply: str) -> Spoken:
    asked = (ChatMessage("user", text),) if text else ()
    said = (*asked, ChatMessage("assistant", reply)) if reply else asked
    lines = (f"{message.role} {message.digest}\n" for message in said)
    return Spoken(said, len(text) + len(reply), "".join(lines))


def _exchange(turn: int, text: str, reply: str, counting: Counting) -> Exchange:
    said = spoken(text, reply)
    return Exchange(turn, said, sum(counting.count(each.content) for each in said.messages))


_remembered: Final = lru_cache(REMEMBERED)(_spoken)
_remembered_exchange: Final = lru_cache(REMEMBERED)(_exchange)


def run_digest(run: Iterable[Spoken]) -> Digest:
    """Digest of a run of history."""
    return digest_of("".join([turn.line for turn in run]))
