"""Every call that a test's model received can be reproduced in three ways that agree.

By the references of its manifest, by assembling it again, and by the stand-alone verifier of
bundles. A test helper that makes a log in memory registers it here; the log is verified when the
test ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from turnlog.events.call import ContextAssembled
from turnlog.events.codec import read
from turnlog.events.content import Digest
from turnlog.events.envelope import Recorded
from turnlog.events.log.memory import MemoryBlobs, MemoryLog
from turnlog.events.log.ports import Blobs, Log, Raw
from turnlog.projections.audit.prompts import Means
from turnlog.projections.audit.retelling import blobs_named
from turnlog.projections.audit.verify import verify
from turnlog.services.bundle.verifier import MALFORMED, Session, Wrong, proven
from turnlog.services.runtime.installed import installed


@dataclass
class Kept:
    """The logs in memory of the running test, with their blobs."""

    held: list[tuple[MemoryLog, MemoryBlobs]] = field(
        default_factory=list[tuple[MemoryLog, MemoryBlobs]]
    )

    def keep(self, log: MemoryLog, blobs: MemoryBlobs) -> None:
        """Register a log."""
        self.held.append((log, blobs))

    def unproven(self) -> list[str]:
        """Return what is wrong with the registered logs, and remove them."""
        held = self.let_go()
        return [wrong for log, blobs in held for wrong in unproven(log.stored, blobs.held)]

    def let_go(self) -> list[tuple[MemoryLog, MemoryBlobs]]:
        """Remove the registered logs and return them."""
        held, self.held = self.held, []
        return held


KEPT = Kept()
"""The logs of the running test."""


# Cached: the material is the same for all sessions that are pinned to it.
@cache
def means() -> Means:
    return Means(installed())


def unproven(raws: Iterable[Raw | None], blobs: Mapping[tuple[str, Digest], bytes]) -> list[str]:
    """Return the calls of a log that cannot be reproduced, and other findings of verification."""
    sessions: dict[tuple[str, str], list[Recorded]] = {}
    for raw in raws:
        if raw is not None and raw.subject.startswith("session."):
            recorded = read(raw.stored, raw.stream_sequence)
            sessions.setdefault((recorded.tenant, recorded.session), []).append(recorded)
    return [
        f"{session}: {wrong}"
        for (tenant, session), events in sessions.items()
        for wrong in of_session(events, {d: b for (of, d), b in blobs.items() if of == tenant})
    ]


async def unproven_on(log: Log, blobs: Blobs, tenant: str) -> list[str]:
    """Return the same for a log that is stored elsewhere."""
    raws = [raw async for bulk in log.follow(tenant, 0, live=False) for raw in bulk]
    named = blobs_named(read(raw.stored, raw.stream_sequence) for raw in raws)
    return unproven(raws, {(tenant, digest): await blobs.get(tenant, digest) for digest in named})


def of_session(events: list[Recorded], blobs: Mapping[Digest, bytes]) -> Iterator[str]:
    """Return what is wrong with one session."""
    texts = {digest: raw.decode() for digest, raw in blobs.items()}
    report = verify(events, texts, means())
    for finding in report.findings:
        yield f"event {finding.sequence}, {finding.check}: {finding.detail}"
    if report.prompts.unreproducible:
        yield report.prompts.why
    yield from by_stranger(events, blobs)


def by_stranger(events: list[Recorded], blobs: Mapping[Digest, bytes]) -> Iterator[str]:
    """Return what the bundle verifier finds, or reads back differently from the assembler."""
    session, first = Session(), events[0]
    try:
        session.read([event.stored for event in events], first.tenant, first.session)
    except Wrong as wrong:
        yield f"by the stranger: {wrong}"
    for place, call in session.calls():
        try:
            proven(call, session, blobs)
        except (Wrong, *MALFORMED) as wrong:
            yield f"event {place}, by the stranger: {wrong!r}"
    ours = sum(isinstance(each.event, ContextAssembled) for each in events)
    if ours != len(tuple(session.calls())):
        yield "the stranger counts other calls"
