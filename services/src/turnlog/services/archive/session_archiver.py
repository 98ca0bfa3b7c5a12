"""Moves closed sessions from the stream of sessions into the files of the archive.

The files of the sessions and the index of them are written before anything is removed. A marker
then says that the stream may be gone from here on: whoever finds it finishes the run from the copy
of the stream, and no role starts before that.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import BaseModel, TypeAdapter

from turnlog.events.archive.archive_index import NextIndex
from turnlog.events.archive.message_archive import MARKER_FILE
from turnlog.events.archive.session_files import ArchivedLine, find_session_file, pack_session
from turnlog.events.errors import Refused, Unavailable
from turnlog.events.jetstream.archive.stream_copy import StreamCopy
from turnlog.events.jetstream.archive.stream_remake import SessionsStream
from turnlog.events.jetstream.js_api import CREATED_METADATA, fetch_stream_info
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.jetstream.session_reads import read_raw_events_by_subject
from turnlog.events.jetstream.work_queue import fetch_work_queue_state
from turnlog.events.store.ports import RawEvent
from turnlog.events.subjects import POSITIONS_SUBJECT, SESSION_HISTORY, SESSIONS_STREAM
from turnlog.services.archive.closed_sessions import ArchivePlan, SessionKey, find_closed_sessions
from turnlog.services.platform.concurrency import run_in_thread
from turnlog.services.platform.nats_server import lock_file
from turnlog.services.platform.whole_files import (
    create_private_folder,
    sync_folder,
    write_private_file,
)

COPY_FILE: Final = "sessions-stream.copy"
"""The copy of the stream that a run makes it anew from."""

PEER_SECONDS: Final = 1.0
"""Seconds in which a role that runs has answered."""


class MoveMarker(BaseModel):
    """What is being moved, as it is noted beside the copy of the stream."""

    copied: StreamCopy
    sessions: tuple[SessionKey, ...]
    archived: int
    """Messages in the archive once the run is done."""

    @property
    def replicas(self) -> int:
        """How many replicas the stream had."""
        return TypeAdapter(int).validate_python(self.copied.config["num_replicas"])


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionArchiver:
    """Moves sessions into the archive in a folder; one at a time, by `lock_archive`."""

    connection: NatsConnection
    """One without keys, so that what is sealed is moved as it is, and with the archive if any."""
    folder: Path
    note_progress: Callable[[int], None] = lambda _: None
    """Called with the number of sessions that are in files so far."""

    async def plan_move(self, before: datetime, tenant: str) -> ArchivePlan:
        """Return what would be moved: closed sessions of a tenant, with no event after a time."""
        return await find_closed_sessions(self.connection, before, tenant)

    async def move_sessions(self, plan: ArchivePlan) -> None:
        """Move the sessions of a plan; refuses while a role is connected.

        A run that was interrupted is finished before, by `finish_move`.
        """
        await self.require_silence()
        stream = SessionsStream.open(self.connection)
        created = (await fetch_stream_info(self.connection, SESSIONS_STREAM)).created
        await stream.raise_fence()
        try:
            copy = await stream.save(self.folder / COPY_FILE)
            archived = await self._write_files(plan)
        except BaseException:
            await stream.remove_fence()
            raise
        copied = copy.add_metadata(CREATED_METADATA, created)
        marker = MoveMarker(copied=copied, sessions=tuple(plan.sessions), archived=archived)
        write_private_file(self.folder / MARKER_FILE, marker.model_dump_json())
        await self.finish_move()

    async def finish_move(self) -> bool:
        """Finish a run that was interrupted; return whether one had begun to remove."""
        stream, file = SessionsStream.open(self.connection), self.folder / MARKER_FILE
        if not file.exists():
            await stream.remove_fence()
            return False
        marker = MoveMarker.model_validate_json(file.read_bytes())
        copy = self.folder / COPY_FILE
        if await stream.find_archived_count() != marker.archived:
            await stream.make_anew(marker.copied, copy, marker.sessions, marker.archived)
        await stream.remove_fence()
        await stream.restore_replicas(marker.replicas)
        NextIndex.replace_index(self.folder)
        sync_folder(self.folder)  # Without the marker nobody would look for the next index.
        file.unlink()
        copy.unlink()
        return True

    async def require_silence(self) -> None:
        """Refuse while a gateway, a worker or a projector is connected."""
        queue = await fetch_work_queue_state(self.connection)
        try:
            await self.connection.send_request(POSITIONS_SUBJECT, patience=PEER_SECONDS)
        except Unavailable:
            if queue is None or not queue.waiting_slots:
                return
        detail = "a gateway, a worker or a projector is connected"
        fix = "stop the service: nothing may be appended while the stream is made anew"
        raise Refused("service-runs", detail, field="nats", fix=fix)

    async def _write_files(self, plan: ArchivePlan) -> int:
        """Write the files of the sessions, and the index of all; return how much it has."""
        index = NextIndex(self.folder)
        for count, (tenant, session) in enumerate(plan.sessions, 1):
            subjects = SESSION_HISTORY.build_filter(tenant, session)
            raws = await read_raw_events_by_subject(self.connection, SESSIONS_STREAM, subjects)
            file = find_session_file(self.folder, tenant, session)
            lines = await run_in_thread(partial(_write_session, file, raws))
            index.add_session(tenant, session, lines)
            self.note_progress(count)
        return index.finish()


def _write_session(file: Path, raws: Sequence[RawEvent]) -> Sequence[ArchivedLine]:
    """Write the file of a session, in place of one that is there; return where its messages are."""
    packed, lines = pack_session(raws)
    create_private_folder(file.parent)
    write_private_file(file, packed)
    return lines


@contextmanager
def lock_archive(folder: Path) -> Generator[None]:
    """Keep other runs out of the archive while the body runs; refuses where there is one."""
    create_private_folder(folder)
    locked = lock_file(folder / "lock")
    if locked is None:
        detail = f"another command moves sessions into {folder}"
        raise Refused("archive-busy", detail, field="archive", fix="wait until it is done")
    with locked:
        yield
