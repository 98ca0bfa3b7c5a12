"""Events of knowledge: cases and parts of documents, which turns retrieve from collections.

All collections of a tenant share one history. A text is stored as a blob; an event refers to it by
digest and describes it. One event holds entries of one collection that were changed together.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from turnlog.events.content import SEALED, Digest, WordDigest, WordList, Words
from turnlog.events.event_model import EventModel
from turnlog.events.model.redaction_events import SourceErased, SourceErasureBegun

KNOWLEDGE_FAMILY: Final = "knowledge"
"""The envelope's subject for knowledge events, where a session event has its session id."""

EntryKind = Literal["case", "document"]
"""What an entry is: a case to be adapted, or a part of a document."""


class KnowledgeEntry(EventModel):
    """An entry of a collection, as it is from this event on."""

    id: str
    """The entry's id within its collection."""
    kind: EntryKind
    """`case` or `document`."""
    title: Words = ""
    """What the entry is about, in one line."""
    digest: Digest
    """Digest of the blob, which is the text in UTF-8; keyed where the library is sealed."""
    characters: int
    """Length of the text in code points."""
    text_digest: WordDigest | None = None
    """Digest of the text where `digest` is keyed; None where it is not."""
    source: Words | None = None
    """The file that an import read it from; the import of a file replaces what it gave before."""
    tags: WordList = ()
    """Words that authors sort entries by."""
    attributes: Annotated[dict[str, str], SEALED] = {}
    """Further properties by name."""
    efficiency: float | None = None
    """How efficient a case was, from 0 to 1; None if unknown, and for documents."""


class KnowledgeAdded(EventModel):
    """Entries were added to a collection."""

    type: ClassVar[str] = "turnlog.knowledge-added.v1"
    leaf: ClassVar[str] = "added"

    collection: str
    """The collection; its first entry creates it."""
    entries: tuple[KnowledgeEntry, ...]
    """The added entries."""


class KnowledgeEdited(EventModel):
    """Entries of a collection have new texts or properties; earlier records do not change."""

    type: ClassVar[str] = "turnlog.knowledge-edited.v1"
    leaf: ClassVar[str] = "edited"

    collection: str
    """The collection."""
    entries: tuple[KnowledgeEntry, ...]
    """The entries as they are now."""


class KnowledgeRemoved(EventModel):
    """Entries were removed from a collection; no later turn retrieves them."""

    type: ClassVar[str] = "turnlog.knowledge-removed.v1"
    leaf: ClassVar[str] = "removed"

    collection: str
    """The collection; without entries it no longer exists."""
    entries: tuple[str, ...]
    """The ids of the removed entries."""


KnowledgeEvent = (
    KnowledgeAdded | KnowledgeEdited | KnowledgeRemoved | SourceErasureBegun | SourceErased
)
"""The events of knowledge that this release writes and reads."""
