"""What reading each stream of the record from end to end has found, kept for every role.

One process reads: the projector. Its notes lie beside the snapshots, so that gateways and workers
see them, and the next projector goes on where the last one stopped. A note is not proof, it
shows where to look: its reader asks the server whether the messages exist.

One damaged snapshot drops all of them, and the notes with them. A process remembers what it has
read or saved, so that no session that is stopped goes on meanwhile, and the projector saves its
notes again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from pydantic import TypeAdapter, ValidationError

from turnlog.events.store.ports import SnapshotStore
from turnlog.events.subjects import NOTES_TENANT

SessionKey = tuple[str, str]
"""A tenant and one of its sessions."""


@dataclass(frozen=True, slots=True)
class RecordHole:
    """Stream sequences without a message."""

    first: int
    last: int
    sessions: tuple[SessionKey, ...] = ()
    """The sessions of the missing events, as far as later events show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubNote:
    """How far a stream was read, and what was missing."""

    created: str
    """When the stream was created; a note about another stream is ignored."""
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
    """Loads, saves and remembers the notes about the streams of the record."""

    store: SnapshotStore
    _known: dict[str, ScrubNote] = field(default_factory=dict[str, ScrubNote])

    async def load_note(self, stream: str, created: str) -> ScrubNote | None:
        """Return the note about this very stream; if none is stored, the last that was known."""
        note = await self._read_note(stream) or self._known.get(stream)
        if note is None or note.created != created:
            return None
        self._known[stream] = note
        return note

    async def save_note(self, stream: str, note: ScrubNote) -> None:
        """Replace the note about a stream."""
        self._known[stream] = note
        await self.store.put_snapshot(NOTES_TENANT, stream, _NOTE_ADAPTER.dump_json(note))

    async def save_if_lost(self, stream: str, note: ScrubNote) -> None:
        """Save a note about a stream of which none is stored."""
        if await self._read_note(stream) is None:
            await self.save_note(stream, note)

    async def _read_note(self, stream: str) -> ScrubNote | None:
        stored = await self.store.get_snapshot(NOTES_TENANT, stream)
        try:
            return _NOTE_ADAPTER.validate_json(stored or b"")
        except ValidationError:
            return None
