"""Which turns a history view or a reader of the memory includes, and why others are excluded.

`last_messages` counts back from the latest turn before any other rule applies, so that an excluded
turn makes no room for an older one. Skipped texts are recognised by digest; no text is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from turnlog.events.content import Digest, compute_digest
from turnlog.projections.blueprint.schema import HistoryViewSpec
from turnlog.projections.session.state import SettledTurnRef
from turnlog.projections.window.memory import list_message_refs
from turnlog.projections.window.visibility import PhaseVisibility

LAST_MESSAGES_RULE: Final = "last_messages"
SKIP_RULE: Final = "skip"


def find_skipped_turns(view: HistoryViewSpec, turns: Iterable[SettledTurnRef], sight: PhaseVisibility) -> dict[int, str]:
    """Return the turns that the view's options exclude, each with the name of the option."""
    rules: dict[int, str] = {}
    if view.skip:
        texts = _compute_digests(view.skip)
        rules |= {ref.turn: SKIP_RULE for ref in turns if texts.issuperset(_list_digests(ref))}
    if view.last_messages is not None:
        replied = _list_completed_turns(turns, sight)
        rules |= dict.fromkeys(_list_turns_before(replied, view.last_messages), LAST_MESSAGES_RULE)
    return rules


def has_enough_messages(view: HistoryViewSpec, turns: Iterable[SettledTurnRef], sight: PhaseVisibility) -> bool:
    """Return whether these turns fill the view's `last_messages`."""
    if view.last_messages is None:
        return False
    return sum(len(list_message_refs(ref)) for ref in _list_completed_turns(turns, sight)) >= view.last_messages


def _list_completed_turns(turns: Iterable[SettledTurnRef], sight: PhaseVisibility) -> list[SettledTurnRef]:
    return [ref for ref in turns if ref.status == "completed" and sight.can_show(ref.phase)]


def _list_turns_before(turns: Sequence[SettledTurnRef], most: int) -> Iterator[int]:
    """Yield the turns that are not wholly within the latest `most` messages."""
    for ref in reversed(turns):
        most -= len(list_message_refs(ref))
        if most < 0:
            yield ref.turn


def _list_digests(ref: SettledTurnRef) -> Iterator[Digest]:
    return (said.digest for said in list_message_refs(ref))


@lru_cache(64)
def _compute_digests(texts: tuple[str, ...]) -> frozenset[Digest]:
    return frozenset(map(compute_digest, texts))
