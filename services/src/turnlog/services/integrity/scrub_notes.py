"""What reading each stream of the record from end to end has found, kept for every role.

One process reads: the projector. Its notes lie beside the snapshots, so that gateways and workers
see them, and the next projector goes on where the last one stopped. A note is never believed, it
says where to look: whoever reads it asks the server whether the messages are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pydantic import TypeAdapter, ValidationError

from turnlog.events.store.ports import SnapshotStore

NOTES_OWNER: Final = "_record"
"""Where the notes are kept, as tenant of a snapshot whose session is the stream."""

SessionKey = tuple[str, str]
"""A tenant and one of its sessions."""


@dataclass(frozen=True, slots=True)
class RecordHole:
    """Stream sequences without a message."""

    first: int
    last: int
    sessions: tuple[SessionKey, ...] = ()
    """Whose events were there, as far as later events tell."""


@dataclass(frozen=True, slots=True)
class ScrubNote:
    """How far a stream was read, and what was missing."""

    created: str
    """When the stream was created; a note about another stream says nothing."""
    server_run: str
    """Differs after each start of the server."""
    began: datetime
    lost: int
    """How many messages the server knew to be missing when the reading began."""
    position: int = 0
    is_complete: bool = False
    holes: tuple[RecordHole, ...] = ()


_NOTE_ADAPTER: Final = TypeAdapter(ScrubNote)


@dataclass(frozen=True, slots=True)
class ScrubNotes:
    """Loads and saves the notes about the streams of the record."""

    store: SnapshotStore

    async def load_note(self, stream: str, created: str) -> ScrubNote | None:
        """Return the note about this very stream, if there is one."""
        stored = await self.store.get_snapshot(NOTES_OWNER, stream)
        try:
            note = _NOTE_ADAPTER.validate_json(stored or b"")
        except ValidationError:
            return None
        return note if note.created == created else None

    async def save_note(self, stream: str, note: ScrubNote) -> None:
        """Replace the note about a stream."""
        await self.store.put_snapshot(NOTES_OWNER, stream, _NOTE_ADAPTER.dump_json(note))
