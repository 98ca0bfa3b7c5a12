"""The messages of a turn, as every prompt that includes the turn contains them.

A turn appears in hundreds of prompts with the same words. Its messages are therefore built once per
wording and cached together with their digests.
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
"""Maximum memory of a turn's texts, in bytes, for the turn to be cached."""
REMEMBERED: Final = 4_096
"""Number of cached turns.

That is 12 MB of text and as much of what digests are computed from, and at most 90 MB where JSON
escapes most characters.
"""


@dataclass(frozen=True, slots=True)
class Spoken:
    """The question and the answer of a turn."""

    messages: tuple[ChatMessage, ...]
    characters: int
    """Length in code points."""
    line: str
    """What the digest of a run is computed from: role and digest of each message, one a line."""


@dataclass(frozen=True, slots=True)
class Retelling:
    """How turns are condensed."""

    last: int
    """The last condensed turn."""
    condensed: Condensed
    """The rule and its version, by which the text is rebuilt."""
    rule: str
    """Why it was condensed: an option of the view or a trim step."""
    again: tuple[int, ...] = ()
    """See `FromTurns.again`."""
    later: int | None = None
    """See `FromTurns.later`."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """The messages of a turn in a view, with their token count."""

    turn: int
    said: Spoken
    tokens: int
    retelling: Retelling | None = None
    """How one or several turns were condensed; None for a turn in its own words."""
    saved: int = 0
    """Tokens that condensing saved, unless a trim step records them."""

    @property
    def last(self) -> int:
        """The last turn that it covers."""
        return self.retelling.last if self.retelling else self.turn


def spoken(text: str, reply: str) -> Spoken:
    """Return the messages of a turn; an empty text is no message."""
    return (_remembered if _short(text, reply) else _spoken)(text, reply)


def worked_out(work: str, reply: str) -> str:
    """Put the description of how a turn was worked out before its reply."""
    return f"{work}\n\n{reply}"


def exchange(turn: int, text: str, reply: str, counting: Counting) -> Exchange:
    """Return the messages of a turn with their token count."""
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
    """Return the digest of a run of turns."""
    return digest_of("".join([turn.line for turn in run]))
