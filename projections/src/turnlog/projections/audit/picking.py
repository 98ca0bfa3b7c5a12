from __future__ import annotations

from collections.abc import Iterable

from turnlog.events.envelope import Recorded
from turnlog.events.kinds import KnownEvent


def of_kinds(events: Iterable[Recorded], *kinds: type[KnownEvent]) -> list[Recorded]:
    """Return the events of these types, in order.

    The exact class is compared: most events match no type, and `isinstance` for each would take
    longer than the work that follows.
    """
    wanted = frozenset(kinds)
    return [recorded for recorded in events if type(recorded.event) in wanted]
