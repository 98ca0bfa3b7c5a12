"""Events of library segments: texts that are stored once and used in many prompts.

All segments of a tenant share one history, which assigns their numbers and lets concurrent editors
detect each other's changes. A text is stored as a blob; an event refers to it by digest and
describes it. One event holds all segments that were changed together.
"""

from __future__ import annotations

from typing import ClassVar, Final

from turnlog.events.content import Digest, WordDigest
from turnlog.events.event_model import EventModel
from turnlog.events.model.redaction_events import SourceErased, SourceErasureBegun

SEGMENT_FAMILY: Final = "segments"
"""The envelope's subject for segment events, where a session event has its session id."""


class SegmentText(EventModel):
    """A text and its properties."""

    digest: Digest
    """Digest of the blob, which is the text in UTF-8; keyed where the library is sealed."""
    characters: int
    """Length in code points."""
    text_digest: WordDigest | None = None
    """Digest of the text where `digest` is keyed; None where it is not."""
    tier: int = 0
    """How much a reader must have discovered to see it; 0 is for everyone."""
    type: str = ""
    """The kind of text, such as `npc_cue`."""
    priority: str = "normal"
    """`low`, `normal` or `high`."""


class NewSegment(EventModel):
    """A segment with its first version."""

    id: int
    """The segment's number within the tenant."""
    scope: str
    """The part of a prompt it is for, such as `npc`."""
    ref: str | None = None
    """The owner within the scope, such as `npc.innkeeper`."""
    locale: str | None = None
    """The locale of the text; None if it is the fallback for all locales."""
    version: int = 1
    """Number of its first version; above 1 if an import brought the number with it."""
    variant: str = "a"
    """The variant of the text."""
    active: bool = True
    """Whether calls can use it."""
    text: SegmentText
    """The text."""


class NewSegmentVersion(EventModel):
    """A new version of a segment's text."""

    id: int
    """The segment's number."""
    version: int
    """Version number, counted over all variants of the segment and never lowered."""
    variant: str = "a"
    """The variant whose text it replaces."""
    text: SegmentText
    """The text."""


class SegmentsAdded(EventModel):
    """Segments were added."""

    type: ClassVar[str] = "turnlog.segments-added.v1"
    leaf: ClassVar[str] = "added"

    segments: tuple[NewSegment, ...]
    """The added segments."""


class SegmentsEdited(EventModel):
    """Segments have new texts; earlier records of them do not change."""

    type: ClassVar[str] = "turnlog.segments-edited.v1"
    leaf: ClassVar[str] = "edited"

    versions: tuple[NewSegmentVersion, ...]
    """The new texts."""


class SegmentsDeactivated(EventModel):
    """Calls no longer use these segments."""

    type: ClassVar[str] = "turnlog.segments-deactivated.v1"
    leaf: ClassVar[str] = "deactivated"

    segments: tuple[int, ...]
    """Their numbers."""
    variant: str | None = None
    """Only this variant of them; all variants if None."""


class SegmentsActivated(EventModel):
    """Calls use these segments again."""

    type: ClassVar[str] = "turnlog.segments-activated.v1"
    leaf: ClassVar[str] = "activated"

    segments: tuple[int, ...]
    """Their numbers."""
    variant: str | None = None
    """Only this variant of them; the segments themselves if None."""


SegmentEvent = (
    SegmentsAdded
    | SegmentsEdited
    | SegmentsDeactivated
    | SegmentsActivated
    | SourceErasureBegun
    | SourceErased
)
"""The events of segments that this release writes and reads."""
