from __future__ import annotations

from turnlog.events.content import Content
from turnlog.events.envelope import Recorded
from turnlog.projections.session.state import Said


def said(recorded: Recorded, field: str, content: Content | None) -> Said | None:
    """Return the reference to a field's content, or None where the field is empty."""
    return None if content is None else stands(recorded, field, content)


def stands(recorded: Recorded, field: str, content: Content) -> Said:
    """Return the reference to content that is present."""
    return Said(
        recorded.sequence,
        recorded.stream_sequence,
        field,
        content.digest,
        content.characters,
        recorded.envelope.time,
    )
