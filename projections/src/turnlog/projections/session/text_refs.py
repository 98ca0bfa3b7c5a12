"""References to texts and inputs in the log, with what is known of them without reading them.

State and prompts refer to texts by these references. A text itself is read only when a prompt needs
it.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.content import Content, Digest, compute_digest
from turnlog.events.envelope import RecordedEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRef:
    """A reference to one text in the log."""

    sequence: int
    """Sequence of the event in its session."""
    place: int
    """Position of that event in the stream."""
    field: str
    """Field of the event that holds the text."""
    digest: Digest
    """Digest of the text."""
    characters: int
    """Length in code points."""
    at: str
    """When the event was recorded, RFC 3339."""

    def __hash__(self) -> int:
        # Prompt assembly hashes hundreds of these. Most events hold one text, so stream positions
        # rarely collide.
        return self.place


@dataclass(frozen=True, slots=True)
class InputsRef:
    """A reference to the inputs of a turn in the log."""

    sequence: int
    """Sequence of the event in its session."""
    place: int
    """Position of that event in the stream."""


def build_optional_text_ref(
    recorded: RecordedEvent, field: str, content: Content | None
) -> TextRef | None:
    """Return the reference to a field's content, or None where the field is empty."""
    return None if content is None else build_text_ref(recorded, field, content)


def build_text_ref(recorded: RecordedEvent, field: str, content: Content) -> TextRef:
    """Return the reference to content that is present."""
    return TextRef(
        sequence=recorded.sequence,
        place=recorded.stream_sequence,
        field=field,
        digest=content.digest,
        characters=content.characters,
        at=recorded.envelope.time,
    )


def build_literal_text_ref(recorded: RecordedEvent, field: str, text: str) -> TextRef:
    """Return the reference to a field that is a text itself."""
    return TextRef(
        sequence=recorded.sequence,
        place=recorded.stream_sequence,
        field=field,
        digest=compute_digest(text),
        characters=len(text),
        at=recorded.envelope.time,
    )
