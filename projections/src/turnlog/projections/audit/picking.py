from __future__ import annotations

from collections.abc import Iterable

from turnlog.events.envelope import RecordedEvent
from turnlog.events.kinds import KnownEvent


def filter_by_type(events: Iterable[RecordedEvent], *event_types: type[KnownEvent]) -> list[RecordedEvent]:
    """Return the events of these types, in order.

    The exact class is compared: most events match no type, and `isinstance` for each would take
    longer than the work that follows.
    """
    wanted = frozenset(event_types)
    return [recorded for recorded in events if type(recorded.event) in wanted]
