"""A log with the contents of a bundle, verified as `turnlog verify` does it.

The log is built in memory, and in the streams of a real server after they were deleted and
recreated, as an attacker with write access would do it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from tests.replay.bundle_copies import BundleCopy
from tests.support.sessions.prepared_database import open_prepared_store
from tests.support.sessions.reproduction_checks import get_verification_means
from tests.support.sessions.session_harness import EmptyCommandIndex, SteppingClock
from turnlog.events.jetstream.jetstream_client import JetStreamClient
from turnlog.events.jetstream.js_api import PublishAck, request_json
from turnlog.events.jetstream.stream_setup import StreamOptions, build_durable_streams
from turnlog.events.store.memory_log import (
    MemoryBlobStore,
    MemoryLog,
    MemoryMediaStore,
    MemorySnapshotStore,
)
from turnlog.events.store.ports import BlobStore, EventLog, RawEvent
from turnlog.events.subjects import (
    ALERT_HISTORY,
    BLOBS_STREAM,
    LIBRARY_HISTORY,
    READ_HISTORY,
    SESSIONS_STREAM,
    build_blob_subject,
)
from turnlog.projections.audit.verify.signed_checkpoints import AuditCheckpoint
from turnlog.services.audit.chain_scan import LocatedFinding
from turnlog.services.audit.verify_service import VerifyService
from turnlog.services.caches.media_cache import MediaReader
from turnlog.services.caches.session_snapshots import CheckedSnapshotStore
from turnlog.services.caches.text_cache import TextReader
from turnlog.services.sessions.command_handler import CommandHandler

NOTHING: Final = "session.nobody.nothing.turn"
"""The subject of filler messages between sessions; they are another tenant's."""


class _JetStreamReply(BaseModel):
    success: bool = True


def collect_positioned_events(
    copy: BundleCopy, sound: BundleCopy, sessions: Sequence[str]
) -> list[RawEvent]:
    """Give the lines of some sessions where they lay, new ones behind what is before them."""
    found: list[RawEvent] = []
    for session in sessions:
        lay = zip(sound.sessions[session], sound.read_events(session), strict=True)
        places = {line: recorded.stream_sequence for line, recorded in lay}
        subject, place = f"session.{copy.bundle_list.tenant}.{session}.turn", 0
        for line in copy.sessions[session]:
            place = max(place + 1, places.get(line, 0))
            found.append(RawEvent(subject, place, line))
    return found


def build_memory_log(copy: BundleCopy, sound: BundleCopy, sessions: Sequence[str]) -> MemoryLog:
    """Return a log in memory with some sessions."""
    log = MemoryLog()
    for raw in collect_positioned_events(copy, sound, sessions):
        log.stored += [
            RawEvent(NOTHING, place, b"")
            for place in range(len(log.stored) + 1, raw.stream_sequence + 1)
        ]
        log.stored[raw.stream_sequence - 1] = raw
        session = (copy.bundle_list.tenant, raw.subject.split(".")[2])
        log.sessions.setdefault(session, []).append(raw.stream_sequence)
    return log


def build_memory_blobs(copy: BundleCopy) -> MemoryBlobStore:
    """Give its blobs in memory."""
    return MemoryBlobStore(
        {(copy.bundle_list.tenant, digest): raw for digest, raw in copy.blobs.items()}
    )


async def replace_streams(
    on: JetStreamClient, copy: BundleCopy, sound: BundleCopy, sessions: Sequence[str]
) -> None:
    """Put some sessions into streams that take the place of those that are there."""
    raws = {raw.stream_sequence: raw for raw in collect_positioned_events(copy, sound, sessions)}
    last = max(raws)
    await _rebuild_stream(on, SESSIONS_STREAM)
    for place in range(1, last):
        raw = raws.get(place, RawEvent(NOTHING, place, b""))
        await on.connection.nc.publish(raw.subject, raw.stored)
    await request_json(on.connection, raws[last].subject, PublishAck, raws[last].stored)
    await _rebuild_stream(on, BLOBS_STREAM)
    for digest, text in copy.blobs.items():
        await request_json(
            on.connection, build_blob_subject(copy.bundle_list.tenant, digest), PublishAck, text
        )


async def _rebuild_stream(on: JetStreamClient, stream: str) -> None:
    """Make a stream again."""
    (config,) = (each for each in build_durable_streams(StreamOptions()) if each["name"] == stream)
    await request_json(on.connection, f"$JS.API.STREAM.DELETE.{stream}", _JetStreamReply)
    made = json.dumps(config).encode()
    await request_json(on.connection, f"$JS.API.STREAM.CREATE.{stream}", _JetStreamReply, made)


async def list_findings(
    copy: BundleCopy,
    *,
    log: EventLog,
    blobs: BlobStore,
    witness: AuditCheckpoint | None,
    folder: Path,
) -> list[LocatedFinding]:
    """Verify all of the log of a copy, whose media are as the copy has them."""
    ids = count(1)
    tenant = copy.bundle_list.tenant
    media = MemoryMediaStore({(tenant, digest): raw for digest, raw in copy.blobs.items()})
    sessions = CommandHandler(
        log=log,
        snapshots=CheckedSnapshotStore(log, MemorySnapshotStore()),
        texts=TextReader(log=log, blobs=blobs, media=MediaReader(media)),
        older_commands=EmptyCommandIndex(),
        clock=SteppingClock(),
        create_id=lambda: f"id-{next(ids)}",
        source="/test",
    )
    store = await open_prepared_store(folder / "rows.db")
    try:
        auditing = VerifyService(
            tenant=tenant,
            command_handler=sessions,
            library_log=MemoryLog(kind=LIBRARY_HISTORY),
            alerts_log=MemoryLog(kind=ALERT_HISTORY),
            reads_log=MemoryLog(kind=READ_HISTORY),
            store=store,
            means=get_verification_means(),
        )
        return [
            step async for step in auditing.verify_log(witness) if isinstance(step, LocatedFinding)
        ]
    finally:
        await store.close()
