"""Picking: the events of some kinds out of those of a session.

A session is gone through for one thing after the other, and most of its events matter to none of
them. Each is told by its very class: to ask it class by class takes longer than what is done then.
"""

from __future__ import annotations

from collections.abc import Iterable

from turnlog.events.envelope import Recorded
from turnlog.events.kinds import KnownEvent


def of_kinds(events: Iterable[Recorded], *kinds: type[KnownEvent]) -> list[Recorded]:
    """Give the events of these kinds, in order."""
    wanted = frozenset(kinds)
    return [recorded for recorded in events if type(recorded.event) in wanted]
