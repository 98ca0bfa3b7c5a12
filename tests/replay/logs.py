"""A log that holds what a copy of a bundle holds, verified as `turnlog verify` does it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.parts.house import House
from tests.parts.reproduction import means
from tests.replay.copies import Copy
from turnlog.events.log.memory import MemoryBlobs, MemoryLog
from turnlog.events.log.ports import Raw
from turnlog.projections.audit.checkpoint import Checkpoint
from turnlog.projections.store.engine import open_store
from turnlog.projections.store.schema import prepare
from turnlog.services.runtime.auditing import Auditing, Wrong


def log_of(copy: Copy, sound: Copy, sessions: Sequence[str]) -> MemoryLog:
    """Give a log of some sessions: each line where it lay, new ones behind what is before them."""
    log = MemoryLog()
    for session in sessions:
        lay = zip(sound.sessions[session], sound.events(session), strict=True)
        places = {line: recorded.stream_sequence for line, recorded in lay}
        place = 0
        for line in copy.sessions[session]:
            place = max(place + 1, places.get(line, 0))
            log.stored += [None] * (place - len(log.stored))
            subject = f"session.{copy.listed.tenant}.{session}.turn"
            log.stored[place - 1] = Raw(subject, place, line)
            log.sessions.setdefault((copy.listed.tenant, session), []).append(place)
    return log


async def wrongs(
    copy: Copy, log: MemoryLog, witness: Checkpoint | None, folder: Path
) -> list[Wrong]:
    """Verify all of a log, and give what is wrong with it."""
    tenant = copy.listed.tenant
    blobs = MemoryBlobs({(tenant, digest): raw for digest, raw in copy.blobs.items()})
    house = House(log=log, blobs=blobs)
    store = open_store(f"sqlite:///{folder / 'rows.db'}")
    try:
        await prepare(store)
        auditing = Auditing(tenant, house.sessions, house.segments, store, means())
        return [step async for step in auditing.whole(witness) if isinstance(step, Wrong)]
    finally:
        await store.close()
