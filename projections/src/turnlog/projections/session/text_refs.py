"""References to texts and inputs in the log, with what is known of them without reading them.

State and prompts refer to texts by these references. A text itself is read only when a prompt needs
it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from turnlog.events.content import Content, Digest, compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.content_parts import MediaPart


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
class ReasoningRef:
    """A reference to what a model reasoned before a reply."""

    said: TextRef
    model: str
    """The model, which alone can be sent it again."""
    reply_of: int | None = None
    """The turn, if its reply came with tool calls; None if it came alone."""


@dataclass(frozen=True, slots=True)
class InputsRef:
    """A reference to the inputs of a turn in the log."""

    sequence: int
    """Sequence of the event in its session."""
    place: int
    """Position of that event in the stream."""


@dataclass(frozen=True, slots=True)
class MediaRef:
    """A reference to a picture, a recording or a file beside a text in the log."""

    sequence: int
    """Sequence of the event in its session."""
    index: int
    """Its number among the parts of the event, from 0."""
    part: MediaPart
    """What the event says of it."""

    @property
    def field(self) -> str:
        """Dotted path in the event, as manifests have it."""
        return f"parts.{self.index}"


def build_media_refs(recorded: RecordedEvent, parts: Iterable[MediaPart]) -> tuple[MediaRef, ...]:
    """Return the references to the parts of an event."""
    return tuple(MediaRef(recorded.sequence, index, part) for index, part in enumerate(parts))


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
