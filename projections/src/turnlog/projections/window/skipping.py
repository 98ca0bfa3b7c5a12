"""Skipping: turns that the words of a view leave out, whatever became of them.

Messages are counted back from the latest before anything is left out for another reason, so that
an excluded turn makes no room for an older one. No text is read: that a turn says nothing but what
is to be skipped is told by its digests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from turnlog.events.content import Digest, digest_of
from turnlog.projections.blueprint.schema import History
from turnlog.projections.session.state import TurnRef
from turnlog.projections.window.memory import messages_in
from turnlog.projections.window.visibility import Sight

LAST_MESSAGES: Final = "last_messages"
SKIP: Final = "skip"


def skipped(view: History, turns: Iterable[TurnRef], sight: Sight) -> dict[int, str]:
    """Give the turns that are left out, each with the word that says so."""
    rules: dict[int, str] = {}
    if view.skip:
        texts = _digests(view.skip)
        rules |= {ref.turn: SKIP for ref in turns if texts.issuperset(_said(ref))}
    if view.last_messages is not None:
        replied = _replied(turns, sight)
        rules |= dict.fromkeys(_before(replied, view.last_messages), LAST_MESSAGES)
    return rules


def enough(view: History, turns: Iterable[TurnRef], sight: Sight) -> bool:
    """Tell whether these turns have as many messages as are told at the most."""
    if view.last_messages is None:
        return False
    return sum(len(messages_in(ref)) for ref in _replied(turns, sight)) >= view.last_messages


def _replied(turns: Iterable[TurnRef], sight: Sight) -> list[TurnRef]:
    return [ref for ref in turns if ref.status == "completed" and sight.holds(ref.phase)]


def _before(turns: Sequence[TurnRef], most: int) -> Iterator[int]:
    """Give the turns that are not among the latest messages as a whole."""
    for ref in reversed(turns):
        most -= len(messages_in(ref))
        if most < 0:
            yield ref.turn


def _said(ref: TurnRef) -> Iterator[Digest]:
    return (said.digest for said in messages_in(ref))


@lru_cache(64)
def _digests(texts: tuple[str, ...]) -> frozenset[Digest]:
    return frozenset(map(digest_of, texts))
