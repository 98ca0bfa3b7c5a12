"""Watches whether the streams of the record have lost a message; readiness reports it.

Every sequence of a stream from 1 to the last must have its message. The counts of the server show
what it knows to be missing. A message that was altered on disk it does not miss: that is found by
reading, which the projector does for all roles and notes (`scrub_notes`), or by a reader at the
hole. Each round asks the server again for what was found missing, so a stream that was restored is
whole again without a restart, and no round costs more on a longer log.

A lost event stops its own session: where later events or the read models tell whose it was, the
session takes no writes until the stream is restored. All others go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import structlog

from turnlog.events.async_tasks import run_tasks
from turnlog.events.codec import EventBatch
from turnlog.events.errors import Corrupt, StreamHole, Unavailable
from turnlog.events.jetstream.direct_get import get_message
from turnlog.events.jetstream.jetstream_client import JetStreamSnapshotStore
from turnlog.events.jetstream.js_api import StreamInfo, fetch_stream_info
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.store.ports import EventLog
from turnlog.events.subjects import (
    RECORD_STREAMS,
    SESSIONS_STREAM,
)
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.read_your_writes import read_folded_sequence
from turnlog.services.integrity.scrub_notes import RecordHole, ScrubNotes, SessionKey

ROUND_SECONDS: Final = 5.0
"""Seconds between two rounds."""

MAX_CHECKED_HOLES: Final = 20
"""Maximum number of holes of a stream that one round checks, beginning with the first."""

NAMED_SESSIONS: Final = 5
"""Stopped sessions that are named."""

_log = structlog.get_logger("turnlog.record")


@dataclass(frozen=True, slots=True)
class RecordDamage:
    """Messages that a stream has lost."""

    stream: str
    detail: str
    sessions: frozenset[SessionKey] = frozenset()
    """The sessions that are known to miss an event."""

    def build_error(self) -> Corrupt:
        """Return the error that describes it."""
        names = sorted(session for _, session in self.sessions)
        more = ", ..." if len(names) > NAMED_SESSIONS else ""
        stopped = f"; stopped: {', '.join(names[:NAMED_SESSIONS])}{more}" if names else ""
        return Corrupt(f"stream {self.stream}", f"{self.detail}{stopped}")


@dataclass
class RecordWatch:
    """Knows what the streams of the record have lost."""

    connection: NatsConnection
    damage: tuple[RecordDamage, ...] = ()
    """What is missing, as of the last round."""
    _reported: dict[str, tuple[RecordHole, ...]] = field(
        default_factory=dict[str, tuple[RecordHole, ...]]
    )
    """Holes that readers of this process met, by stream."""
    _notes: ScrubNotes = field(init=False)

    def __post_init__(self) -> None:
        self._notes = ScrubNotes(JetStreamSnapshotStore(self.connection))

    async def check_record(self) -> None:
        """Raise `Corrupt` for the first loss that is known."""
        for damage in self.damage:
            raise damage.build_error()

    async def report_hole(self, hole: StreamHole) -> None:
        """Take up a hole that a reader met."""
        known = self._reported.get(hole.stream, ())
        found = RecordHole(hole.first, hole.last)
        if found not in known:
            self._reported[hole.stream] = (*known, found)[:MAX_CHECKED_HOLES]
            await self._run_round()

    @asynccontextmanager
    async def run_checks(self) -> AsyncGenerator[None]:
        """Run rounds while the body runs; the first one is over before it begins."""
        await self._run_round()
        async with run_tasks(self._check_at_intervals()):
            yield

    async def _check_at_intervals(self) -> None:
        while True:
            await asyncio.sleep(ROUND_SECONDS)
            await self._run_round()

    async def _run_round(self) -> None:
        try:
            found = [each for stream in RECORD_STREAMS for each in await self._find_damage(stream)]
        except Unavailable:
            return  # Readiness reports an unreachable server itself.
        before = {each.stream for each in self.damage}
        for damage in found:
            if damage not in self.damage:
                error = damage.build_error()
                _log.error("record-damaged", where=error.where, detail=error.detail)
        for stream in before - {each.stream for each in found}:
            _log.info("record-repaired", where=f"stream {stream}")
        self.damage = tuple(found)

    async def _find_damage(self, stream: str) -> list[RecordDamage]:
        info = await fetch_stream_info(self.connection, stream)
        note = await self._notes.load_note(stream, info.created)
        reported = self._reported.get(stream, ())
        found = (*reported, *(note.holes if note else ()))
        noted = {(hole.first, hole.last): hole for hole in found}
        holes = await self._filter_holes(stream, info, noted)
        self._reported[stream] = tuple(hole for hole in reported if hole in holes)
        if not holes and info.lost_count > 0:
            detail = f"{info.lost_count} of {info.last_sequence} messages are missing"
            return [RecordDamage(stream, f"{detail}: restore the stream from a backup")]
        return [
            RecordDamage(
                stream, StreamHole(stream, hole.first, hole.last).detail, frozenset(hole.sessions)
            )
            for hole in holes
        ]

    async def _filter_holes(
        self, stream: str, info: StreamInfo, noted: Mapping[tuple[int, int], RecordHole]
    ) -> list[RecordHole]:
        """Return those that are holes still."""
        holes: list[RecordHole] = []
        for (first, last), hole in sorted(noted.items()):
            is_sampled = len(holes) < MAX_CHECKED_HOLES
            if last <= info.last_sequence and not (
                is_sampled and await self._has_messages(stream, {first, last})
            ):
                holes.append(hole)
        return holes

    async def _has_messages(self, stream: str, places: set[int]) -> bool:
        found = [await get_message(self.connection, stream, place, leader=True) for place in places]
        return None not in found


@dataclass(frozen=True, slots=True)
class DamagedSessionGuard:
    """Refuses appends to a session that has lost an event."""

    record: RecordWatch
    log: EventLog
    store: ReadModelStore

    async def require_whole_session(self, batch: EventBatch) -> None:
        """Raise `Corrupt` if the session is known to have lost an event."""
        losses = [each for each in self.record.damage if each.stream == SESSIONS_STREAM]
        key = (batch.tenant, batch.session)
        for loss in losses:
            if key in loss.sessions:
                raise _describe_stop(batch, loss.detail)
        if losses and await self._has_lost_end(batch):
            raise _describe_stop(batch, f"the log lacks its last events; {losses[0].detail}")

    async def _has_lost_end(self, batch: EventBatch) -> bool:
        """Return whether the read models have events of a session that the log lost."""
        try:
            folded = await read_folded_sequence(self.store, batch.tenant, batch.session)
        except Unavailable:
            return False
        if folded <= (batch.after.sequence if batch.after else 0):
            return False
        # Also behind the read models is who decided on an older state; the log refuses that.
        last = await self.log.read_last_event(batch.tenant, batch.session, leader=True)
        return last is None or last.sequence < folded


def _describe_stop(batch: EventBatch, detail: str) -> Corrupt:
    return Corrupt(f"session {batch.session}", f"it is stopped, for an event is lost: {detail}")
