"""The texts of library events, one by one, so that each can be sealed under a key of its own.

An event of a sealed library has one text at most. Its key is that of the event's sequence, so that
a text is erased by one key, together with all that the event says of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from turnlog.events.content import Digest
from turnlog.events.model.knowledge_events import KnowledgeAdded, KnowledgeEdited, KnowledgeEntry
from turnlog.events.model.override_events import OverrideSet
from turnlog.events.model.segment_events import SegmentsAdded, SegmentsEdited, SegmentText
from turnlog.events.registry import LibraryEvent, UnknownEvent


def split_texts(events: Iterable[LibraryEvent]) -> Iterator[LibraryEvent]:
    """Yield the same changes as events of one text each; those without texts stay as they are."""
    for event in events:
        match event:
            case KnowledgeAdded() | KnowledgeEdited():
                for entry in event.entries:
                    yield event.model_copy(update={"entries": (entry,)})
            case SegmentsAdded():
                for segment in event.segments:
                    yield event.model_copy(update={"segments": (segment,)})
            case SegmentsEdited():
                for version in event.versions:
                    yield event.model_copy(update={"versions": (version,)})
            case _:
                yield event


def find_text_digest(event: LibraryEvent | UnknownEvent) -> tuple[Digest, Digest] | None:
    """Return the digest that the text of an event is stored under, and that of the text itself.

    Both are one where it was not sealed before. None for an event that has no text.
    """
    match event:
        case KnowledgeAdded(entries=(text,)) | KnowledgeEdited(entries=(text,)):
            return text.digest, get_text_digest(text)
        case SegmentsAdded(segments=(part,)) | SegmentsEdited(versions=(part,)):
            return part.text.digest, get_text_digest(part.text)
        case OverrideSet(override=override):
            return override.digest, event.text_digest or override.digest
        case _:
            return None


def get_text_digest(text: KnowledgeEntry | SegmentText) -> Digest:
    """Return the digest of a text, by which it is compared with others."""
    return text.text_digest or text.digest


def describe_text(text: SegmentText) -> SegmentText:
    """Return the text of a segment as an author submits it, by which it is compared."""
    return text.model_copy(update={"digest": get_text_digest(text), "text_digest": None})


def replace_text_digest(
    event: LibraryEvent, keyed: Digest, plain: Digest, sequence: int
) -> LibraryEvent:
    """Return an event whose text is stored under a keyed digest, with the event's own key."""
    changed = {"digest": keyed, "text_digest": plain}
    match event:
        case KnowledgeAdded(entries=(entry,)) | KnowledgeEdited(entries=(entry,)):
            return event.model_copy(update={"entries": (entry.model_copy(update=changed),)})
        case SegmentsAdded(segments=(segment,)):
            text = segment.text.model_copy(update=changed)
            return event.model_copy(
                update={"segments": (segment.model_copy(update={"text": text}),)}
            )
        case SegmentsEdited(versions=(version,)):
            text = version.text.model_copy(update=changed)
            return event.model_copy(
                update={"versions": (version.model_copy(update={"text": text}),)}
            )
        case OverrideSet(override=override):
            stored = override.model_copy(update={"digest": keyed, "sealed_in": sequence})
            return event.model_copy(update={"override": stored, "text_digest": plain})
        case _:
            return event
