"""Reads the streams of the record from end to end, to find messages that the server cannot read.

A server that recovers a store trusts its index and does not read the blocks. So each start of the
server, and each day, is followed by one reading of everything, by one role for the whole
installation, in the background, and at a share of the time, so that it delays nobody. It is noted
how far it is: a projector that starts goes on there, and reads nothing if all was read.

A lost event does not name its session. The next event of that session does, because it names the
position of the event before it.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

import structlog

from turnlog.events.chain_link import parse_chain_header
from turnlog.events.errors import StreamHole, TurnlogError
from turnlog.events.jetstream.jetstream_client import JetStreamSnapshotStore
from turnlog.events.jetstream.js_api import fetch_stream_info
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.store.ports import BlobStore, EventLog, RawEvent
from turnlog.events.subjects import (
    ALERTS_STREAM,
    BLOBS_STREAM,
    LIBRARY_STREAM,
    READS_STREAM,
    SESSIONS_STREAM,
    TOKENS_STREAM,
)
from turnlog.services.audit.record_scan import StreamPart, scan_stream
from turnlog.services.integrity.scrub_notes import RecordHole, ScrubNote, ScrubNotes

SCRUB_INTERVAL: Final = timedelta(days=1)
"""Time from the beginning of one reading to the next, while the server runs."""

DUE_SECONDS: Final = 5.0
"""Seconds between two looks at whether a reading is due."""

SCRUB_SHARE: Final = 0.1
"""Share of the time in which it reads."""

MAX_PAUSE_SECONDS: Final = 0.5

NOTE_SECONDS: Final = 5.0
"""Seconds between two notes of how far a reading is."""

MAX_NOTED_HOLES: Final = 200

MAX_NOTED_SESSIONS: Final = 2_000
"""Sessions that are noted for all holes of a stream; a note has to fit into one message."""

_log = structlog.get_logger("turnlog.record")

ReadAfter = Callable[[int], AsyncGenerator[Sequence[RawEvent]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordScrub:
    """Reads the streams of the record whenever that is due."""

    connection: NatsConnection
    log: EventLog
    library: EventLog
    alerts: EventLog
    reads: EventLog
    blobs: BlobStore
    clock: Callable[[], datetime]

    async def run(self) -> None:
        """Read forever; ends by cancellation."""
        readers: Mapping[str, ReadAfter] = {
            SESSIONS_STREAM: lambda after: self.log.stream_raw_events(None, after, live=False),
            LIBRARY_STREAM: lambda after: self.library.stream_raw_events(None, after, live=False),
            ALERTS_STREAM: lambda after: self.alerts.stream_raw_events(None, after, live=False),
            READS_STREAM: lambda after: self.reads.stream_raw_events(None, after, live=False),
            BLOBS_STREAM: self.blobs.stream_raw_blobs,
        }
        notes = ScrubNotes(JetStreamSnapshotStore(self.connection))
        while True:
            for stream, read_after in readers.items():
                try:
                    await self._read_if_due(stream, read_after, notes)
                except TurnlogError as error:
                    _log.warning("record-scrub-failed", stream=stream, detail=str(error))
            await asyncio.sleep(DUE_SECONDS)

    async def _read_if_due(self, stream: str, read_after: ReadAfter, notes: ScrubNotes) -> None:
        info = await fetch_stream_info(self.connection, stream)
        # A standalone server forgets this stream when it ends: its creation tells the runs apart.
        run = (await fetch_stream_info(self.connection, TOKENS_STREAM)).created
        begun = ScrubNote(
            created=info.created, server_run=run, began=self.clock(), lost=info.lost_count
        )
        found = await notes.load_note(stream, info.created)
        note = begun if found is None else found
        if found is not None and is_outdated(found, begun):
            note = replace(begun, holes=found.holes)
        if note.is_complete:
            await notes.save_if_lost(stream, note)
        else:
            await StreamScrub(stream, notes, note).run(read_after)


def is_outdated(note: ScrubNote, now: ScrubNote) -> bool:
    """Return whether a stream is to be read again, by the note and by one that began now."""
    if (note.server_run, note.lost) != (now.server_run, now.lost):
        return True
    return not timedelta() <= now.began - note.began < SCRUB_INTERVAL


@dataclass
class StreamScrub:
    """One reading of a stream, from where the note says that it is."""

    stream: str
    notes: ScrubNotes
    note: ScrubNote

    async def run(self, read_after: ReadAfter) -> None:
        """Read to the end of the stream, and note the holes."""
        clock = asyncio.get_running_loop()
        asked_at = noted_at = clock.time()
        async with aclosing(scan_stream(read_after, self.note.position)) as parts:
            async for part in parts:
                pause = min((clock.time() - asked_at) * (1 / SCRUB_SHARE - 1), MAX_PAUSE_SECONDS)
                self.note = _add_part(self.note, part)
                if clock.time() - noted_at >= NOTE_SECONDS:
                    await self.notes.save_note(self.stream, self.note)
                    noted_at = clock.time()
                await asyncio.sleep(pause)
                asked_at = clock.time()
        holes = tuple(hole for hole in self.note.holes if hole.last <= self.note.position)
        self.note = replace(self.note, is_complete=True, holes=holes)
        await self.notes.save_note(self.stream, self.note)


def _add_part(note: ScrubNote, part: StreamPart) -> ScrubNote:
    """Return the note after one more part of the stream."""
    if isinstance(part, StreamHole):
        # An earlier reading may have noted it too, and until now it counted.
        found = [hole for hole in note.holes if hole.last < part.first or hole.first > part.last]
        found.append(RecordHole(part.first, part.last))
        found.sort(key=lambda hole: hole.first)
        return replace(note, position=part.last, holes=tuple(found[:MAX_NOTED_HOLES]))
    last = part[-1].stream_sequence
    holes = [hole for hole in note.holes if hole.last <= note.position or hole.first > last]
    return replace(note, position=last, holes=_add_owners(holes, part))


def _add_owners(holes: Sequence[RecordHole], later: Sequence[RawEvent]) -> tuple[RecordHole, ...]:
    """Add the sessions of which an event tells that the one before it was in a hole."""
    if not holes:
        return ()
    firsts = [hole.first for hole in holes]
    owners = [dict.fromkeys(hole.sessions) for hole in holes]
    room = MAX_NOTED_SESSIONS - sum(map(len, owners))
    for raw in later:
        header = parse_chain_header(raw.stored)
        if header is None or header.sequence == 1:
            continue
        # Within a batch, an event follows the one before it.
        before = header.prevstreamseq or raw.stream_sequence - 1
        at = bisect_right(firsts, before) - 1
        key = (header.tenant, header.session)
        if at >= 0 and before <= holes[at].last and key not in owners[at] and room > 0:
            owners[at][key] = None
            room -= 1
    return tuple(
        replace(hole, sessions=tuple(found)) for hole, found in zip(holes, owners, strict=True)
    )
