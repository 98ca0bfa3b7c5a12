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

from tests.parts.house import NoOlderCommands, SteppingClock
from tests.parts.reproduction import means
from tests.replay.copies import Copy
from turnlog.events.ids import BLOBS, SESSIONS, blob_subject
from turnlog.events.log.library import MemoryLibrary
from turnlog.events.log.memory import MemoryBlobs, MemoryLog, MemorySnapshots
from turnlog.events.log.ports import Blobs, Log, Raw
from turnlog.events.nats.answers import Ack, ask
from turnlog.events.nats.layout import Terms, lasting_streams
from turnlog.events.nats.opening import JetStream
from turnlog.projections.audit.checkpoint import Checkpoint
from turnlog.projections.store.engine import open_store
from turnlog.projections.store.schema import prepare
from turnlog.services.runtime.auditing import Auditing, Wrong
from turnlog.services.runtime.sessions import Sessions
from turnlog.services.runtime.snapshots import CheckedSnapshots
from turnlog.services.runtime.texts import TextReader

NOTHING: Final = "session.nobody.nothing.turn"
"""The subject of filler messages between sessions; they are purged afterwards."""


class _Done(BaseModel):
    success: bool = True


def placed_in(copy: Copy, sound: Copy, sessions: Sequence[str]) -> list[Raw]:
    """Return the lines of some sessions at their positions; new lines follow the line before them."""
    found: list[Raw] = []
    for session in sessions:
        lay = zip(sound.sessions[session], sound.events(session), strict=True)
        places = {line: recorded.stream_sequence for line, recorded in lay}
        subject, place = f"session.{copy.listed.tenant}.{session}.turn", 0
        for line in copy.sessions[session]:
            place = max(place + 1, places.get(line, 0))
            found.append(Raw(subject, place, line))
    return found


def log_of(copy: Copy, sound: Copy, sessions: Sequence[str]) -> MemoryLog:
    """Return a log in memory with some sessions."""
    log = MemoryLog()
    for raw in placed_in(copy, sound, sessions):
        log.stored += [None] * (raw.stream_sequence - len(log.stored))
        log.stored[raw.stream_sequence - 1] = raw
        session = (copy.listed.tenant, raw.subject.split(".")[2])
        log.sessions.setdefault(session, []).append(raw.stream_sequence)
    return log


def blobs_of(copy: Copy) -> MemoryBlobs:
    return MemoryBlobs({(copy.listed.tenant, digest): raw for digest, raw in copy.blobs.items()})


async def made_anew(on: JetStream, copy: Copy, sound: Copy, sessions: Sequence[str]) -> None:
    """Replace the streams of a server by streams with these sessions."""
    raws = {raw.stream_sequence: raw for raw in placed_in(copy, sound, sessions)}
    first, last = min(raws), max(raws)
    await _replaced(on, SESSIONS, first)
    for place in range(first, last):
        raw = raws.get(place, Raw(NOTHING, place, b""))
        await on.connection.nc.publish(raw.subject, raw.stored)
    await ask(on.connection, raws[last].subject, Ack, raws[last].stored)
    between = json.dumps({"filter": NOTHING}).encode()
    await ask(on.connection, f"$JS.API.STREAM.PURGE.{SESSIONS}", _Done, between)
    await _replaced(on, BLOBS, 1)
    for digest, text in copy.blobs.items():
        await ask(on.connection, blob_subject(copy.listed.tenant, digest), Ack, text)


async def _replaced(on: JetStream, stream: str, first: int) -> None:
    """Delete a stream and create it with the first sequence `first`."""
    (wanted,) = (each for each in lasting_streams(Terms()) if each["name"] == stream)
    await ask(on.connection, f"$JS.API.STREAM.DELETE.{stream}", _Done)
    made = json.dumps(wanted | {"first_seq": first}).encode()
    await ask(on.connection, f"$JS.API.STREAM.CREATE.{stream}", _Done, made)


async def wrongs(
    tenant: str, log: Log, blobs: Blobs, witness: Checkpoint | None, folder: Path
) -> list[Wrong]:
    """Verify a whole log and return its faults."""
    ids = count(1)
    sessions = Sessions(
        log,
        CheckedSnapshots(log, MemorySnapshots()),
        TextReader(log, blobs),
        NoOlderCommands(),
        SteppingClock(),
        lambda: f"id-{next(ids)}",
        "/test",
    )
    store = open_store(f"sqlite:///{folder / 'rows.db'}")
    try:
        await prepare(store)
        auditing = Auditing(tenant, sessions, MemoryLibrary(), store, means())
        return [step async for step in auditing.whole(witness) if isinstance(step, Wrong)]
    finally:
        await store.close()
