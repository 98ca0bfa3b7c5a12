"""Which turns a history view or a reader of the memory includes, and why others are excluded.

`last_messages` counts back from the latest turn before any other rule applies, so that an excluded
turn makes no room for an older one. Skipped texts are recognised by digest; no text is read.
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
    """Return the turns that the view's options exclude, each with the name of the option."""
    rules: dict[int, str] = {}
    if view.skip:
        texts = _digests(view.skip)
        rules |= {ref.turn: SKIP for ref in turns if texts.issuperset(_said(ref))}
    if view.last_messages is not None:
        replied = _replied(turns, sight)
        rules |= dict.fromkeys(_before(replied, view.last_messages), LAST_MESSAGES)
    return rules


def enough(view: History, turns: Iterable[TurnRef], sight: Sight) -> bool:
    """Return whether these turns fill the view's `last_messages`."""
    if view.last_messages is None:
        return False
    return sum(len(messages_in(ref)) for ref in _replied(turns, sight)) >= view.last_messages


def _replied(turns: Iterable[TurnRef], sight: Sight) -> list[TurnRef]:
    return [ref for ref in turns if ref.status == "completed" and sight.holds(ref.phase)]


def _before(turns: Sequence[TurnRef], most: int) -> Iterator[int]:
    """Yield the turns that are not wholly within the latest `most` messages."""
    for ref in reversed(turns):
        most -= len(messages_in(ref))
        if most < 0:
            yield ref.turn


def _said(ref: TurnRef) -> Iterator[Digest]:
    return (said.digest for said in messages_in(ref))


@lru_cache(64)
def _digests(texts: tuple[str, ...]) -> frozenset[Digest]:
    return frozenset(map(digest_of, texts))
