"""Scans of the record's streams that go on after a hole, and the findings about whole streams.

A reader of a stream ends at a hole. An audit must also see what comes after it, so it notes the
hole and reads on. Findings of this module concern a stream, not a session: a lost message does
not name its session.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from turnlog.events.content import compute_digest
from turnlog.events.errors import Corrupt, StreamHole
from turnlog.events.store.ports import BlobStore, EventLog, RawEvent
from turnlog.events.subjects import parse_blob_subject
from turnlog.projections.audit.verify.audit_findings import AuditFinding

StreamPart = Sequence[RawEvent] | StreamHole
"""Some messages in order, or a hole between them."""


async def scan_stream(
    read_after: Callable[[int], AsyncGenerator[Sequence[RawEvent]]], after: int = 0
) -> AsyncGenerator[StreamPart]:
    """Yield everything after a stream sequence, and each hole in its place."""
    while True:
        try:
            async with aclosing(read_after(after)) as bulks:
                async for bulk in bulks:
                    yield bulk
        except StreamHole as hole:
            yield hole
            after = hole.last
        else:
            return


def scan_log(log: EventLog, tenant: str | None, after: int = 0) -> AsyncGenerator[StreamPart]:
    """Yield a tenant's stored events, or those of all tenants, and the holes of the stream."""
    return scan_stream(lambda last: log.stream_raw_events(tenant, last, live=False), after)


def describe_hole(hole: StreamHole) -> AuditFinding:
    """Return the finding for a hole."""
    return AuditFinding("completeness", "stream", None, str(hole))


async def scan_blobs(blobs: BlobStore, tenant: str) -> AsyncGenerator[AuditFinding | StreamHole]:
    """Yield what is wrong with the stream of blobs.

    That is every hole, and the tenant's blobs whose bytes are not those of their digest.
    """
    async with aclosing(scan_stream(blobs.stream_raw_blobs)) as parts:
        async for part in parts:
            if isinstance(part, StreamHole):
                yield part
                continue
            for raw in part:
                owner, digest = parse_blob_subject(raw.subject)
                if owner == tenant and _is_altered(digest, raw.stored):
                    yield await _describe_altered_blob(blobs, tenant, digest, raw.stream_sequence)


def _is_altered(digest: str, stored: bytes) -> bool:
    """Return whether these are other bytes; a digest under a key cannot be checked here."""
    return digest.startswith("sha256:") and compute_digest(stored) != digest


async def _describe_altered_blob(
    blobs: BlobStore, tenant: str, digest: str, stream_sequence: int
) -> AuditFinding:
    where = f"stream BLOBS: sequence {stream_sequence}"
    try:
        await blobs.get_blob(tenant, digest)
    except Corrupt:
        detail = f"{where} does not have the bytes of blob {digest}"
    else:
        detail = f"{where} has other bytes under blob {digest}; the blob itself is unaltered"
    return AuditFinding("integrity", "stream", None, detail)
