from __future__ import annotations

from turnlog.events.content import Content
from turnlog.events.envelope import RecordedEvent
from turnlog.projections.session.state import TextRef


def build_optional_text_ref(recorded: RecordedEvent, field: str, content: Content | None) -> TextRef | None:
    """Return the reference to a field's content, or None where the field is empty."""
    return None if content is None else build_text_ref(recorded, field, content)


def build_text_ref(recorded: RecordedEvent, field: str, content: Content) -> TextRef:
    """Return the reference to content that is present."""
    return TextRef(
        recorded.sequence,
        recorded.stream_sequence,
        field,
        content.digest,
        content.characters,
        recorded.envelope.time,
    )
