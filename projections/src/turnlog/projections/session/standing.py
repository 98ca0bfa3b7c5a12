"""Where a text stands in the log, read off the event that holds it."""

from __future__ import annotations

from turnlog.events.content import Content
from turnlog.events.envelope import Recorded
from turnlog.projections.session.state import Said


def said(recorded: Recorded, field: str, content: Content | None) -> Said | None:
    """Say where the content of a field stands; none where there is none."""
    return None if content is None else stands(recorded, field, content)


def stands(recorded: Recorded, field: str, content: Content) -> Said:
    """Say where content stands that is there."""
    return Said(
        recorded.sequence,
        recorded.stream_sequence,
        field,
        content.digest,
        content.characters,
        recorded.envelope.time,
    )
