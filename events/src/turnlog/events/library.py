"""Events of the library's segments: texts that are stored once and stand in many prompts.

All segments of a tenant have one history, so that their numbers are given out once and whoever
edits sees what others edited. A text lies in a blob; an event says which one, and what is said
of it. An event holds as many segments as were changed together.
"""

from __future__ import annotations

from typing import ClassVar, Final, get_args

from pydantic import ValidationError

from turnlog.events.content import Digest
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt
from turnlog.events.fact import Fact
from turnlog.events.kinds import Unknown

SEGMENTS: Final = "segments"
"""What stands in the envelope where a session's id stands in that of a session's event."""


class SegmentText(Fact):
    """A text, and what is said of it."""

    digest: Digest
    """Digest of the blob, which is the text in UTF-8."""
    characters: int
    """Its length in code points."""
    tier: int = 0
    """How much a reader must have found out; 0 is for everyone."""
    type: str = ""
    """What kind of text it is, such as `npc_cue`."""
    priority: str = "normal"
    """`low`, `normal` or `high`."""


class NewSegment(Fact):
    """A segment, with its first version."""

    id: int
    """Its number within the tenant."""
    scope: str
    """What part of a prompt it is for, such as `npc`."""
    ref: str | None = None
    """Whose it is within the scope, such as `npc.innkeeper`."""
    locale: str | None = None
    """The locale it is written in; none for one that stands in wherever no other is found."""
    variant: str = "a"
    """Which variant the text is of."""
    active: bool = True
    """Whether calls are given it."""
    text: SegmentText
    """The text."""


class NewVersion(Fact):
    """Another text of a segment."""

    id: int
    """The segment's number."""
    version: int
    """Counts the texts of the segment, whatever their variant; the first is 1."""
    variant: str = "a"
    """Which variant it is of; it takes the place of that variant's text before it."""
    text: SegmentText
    """The text."""


class SegmentsAdded(Fact):
    """Segments are there from here on."""

    type: ClassVar[str] = "turnlog.segments-added.v1"
    leaf: ClassVar[str] = "added"

    segments: tuple[NewSegment, ...]
    """The segments."""


class SegmentsEdited(Fact):
    """Segments say something else from here on; what was recorded of them before stays true."""

    type: ClassVar[str] = "turnlog.segments-edited.v1"
    leaf: ClassVar[str] = "edited"

    versions: tuple[NewVersion, ...]
    """The new texts."""


class SegmentsDeactivated(Fact):
    """Calls are no longer given these segments."""

    type: ClassVar[str] = "turnlog.segments-deactivated.v1"
    leaf: ClassVar[str] = "deactivated"

    segments: tuple[int, ...]
    """Their numbers."""
    variant: str | None = None
    """Only this variant of them; without it, all they are."""


class SegmentsActivated(Fact):
    """Calls are given these segments again."""

    type: ClassVar[str] = "turnlog.segments-activated.v1"
    leaf: ClassVar[str] = "activated"

    segments: tuple[int, ...]
    """Their numbers."""
    variant: str | None = None
    """Only this variant of them; without it, the segments themselves."""


LibraryEvent = SegmentsAdded | SegmentsEdited | SegmentsDeactivated | SegmentsActivated
"""What this release writes and understands."""

LIBRARY_KINDS: Final[dict[str, type[LibraryEvent]]] = {
    kind.type: kind for kind in get_args(LibraryEvent)
}
"""Type on the wire to class."""


def understood(recorded: Recorded) -> LibraryEvent | Unknown:
    """Give an event of the library as its own class; raises `Corrupt` where it is not one.

    To the codec, which knows what happens in sessions, all events of the library are unknown.
    """
    event = recorded.event
    kind = LIBRARY_KINDS.get(recorded.envelope.type)
    if kind is None or not isinstance(event, Unknown):
        return event if isinstance(event, Unknown) else Unknown(recorded.envelope.type, {})
    try:
        return kind.model_validate(event.data)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        place = f"LIBRARY, stream sequence {recorded.stream_sequence}"
        raise Corrupt(place, f"{where}: {first['msg']}") from None
