"""Every call that a test's model received can be reproduced in three ways that agree.

By the references of its manifest, by assembling it again, and by the stand-alone verifier of
bundles. A test helper that makes a log in memory registers it here; the log is verified when the
test ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from turnlog.events.codec import decode_event
from turnlog.events.content import Digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import KeysErased
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.seals.leaf_sets import format_leaf_runs
from turnlog.events.seals.sealed_payload import get_box_key
from turnlog.events.store.memory_log import MemoryBlobStore, MemoryLog
from turnlog.events.store.ports import BlobStore, EventLog, RawEvent
from turnlog.events.stray_messages import is_stray
from turnlog.projections.audit.record.erasure_reach import is_closed
from turnlog.projections.audit.record.session_replay import collect_blob_digests
from turnlog.projections.audit.verify.erasure_checks import list_source_closures
from turnlog.projections.audit.verify.session_verification import (
    VerificationContext,
    verify_session,
)
from turnlog.services.bundle.check_lines import MALFORMED, VerificationFailure
from turnlog.services.bundle.verifier import EventChain, verify_prompt
from turnlog.services.extensions.plugins import collect_installed


@dataclass
class MemoryLogRegistry:
    """The logs in memory of the running test, with their blobs."""

    logs: list[tuple[MemoryLog, MemoryBlobStore]] = field(
        default_factory=list[tuple[MemoryLog, MemoryBlobStore]]
    )

    def register_log(self, log: MemoryLog, blobs: MemoryBlobStore) -> None:
        """Take a log in."""
        self.logs.append((log, blobs))

    def find_failures(self) -> list[str]:
        """Return what is wrong with the registered logs, and remove them."""
        logs = self.remove_logs()
        return [
            wrong
            for log, blobs in logs
            for wrong in find_unreproducible_calls(log.stored, blobs.blobs)
        ]

    def remove_logs(self) -> list[tuple[MemoryLog, MemoryBlobStore]]:
        """Give the logs kept so far, and keep them no longer."""
        removed, self.logs = self.logs, []
        return removed


MEMORY_LOGS = MemoryLogRegistry()
"""The logs of the running test."""


# Cached: the material is the same for all sessions that are pinned to it.
@cache
def get_verification_means() -> VerificationContext:
    return VerificationContext(collect_installed())


def find_unreproducible_calls(
    raws: Iterable[RawEvent | None], blobs: Mapping[tuple[str, Digest], bytes]
) -> list[str]:
    """Say which calls on a log cannot be had again, and what else verifying finds."""
    sessions: dict[tuple[str, str], list[RecordedEvent]] = {}
    for raw in raws:
        if raw is not None and raw.subject.startswith("session."):
            recorded = decode_event(raw.stored, raw.stream_sequence)
            sessions.setdefault((recorded.tenant, recorded.session), []).append(recorded)
    return [
        f"{session}: {wrong}"
        for (tenant, session), events in sessions.items()
        for wrong in verify_session_log(
            events, {d: b for (of, d), b in blobs.items() if of == tenant}
        )
    ]


async def find_unreproducible_calls_on(log: EventLog, blobs: BlobStore, tenant: str) -> list[str]:
    """Say the same of a log that is elsewhere, where stray messages may be among the events."""
    bulks = log.stream_raw_events(tenant, 0, live=False)
    raws = [raw async for bulk in bulks for raw in bulk if not is_stray(raw.subject, raw.stored)]
    named = collect_blob_digests(decode_event(raw.stored, raw.stream_sequence) for raw in raws)
    found: dict[tuple[str, Digest], bytes] = {}
    for digest in named:
        try:
            found[tenant, digest] = await blobs.get_blob(tenant, digest)
        except KeysErased:
            found[tenant, digest] = b""  # As verifying takes it: what had the text is erased.
    return find_unreproducible_calls(raws, found)


def verify_session_log(events: list[RecordedEvent], blobs: Mapping[Digest, bytes]) -> Iterator[str]:
    """Say what is wrong with one session."""
    texts = {digest: raw.decode() for digest, raw in blobs.items()}
    report = verify_session(events, texts, get_verification_means())
    for finding in report.findings:
        yield f"event {finding.sequence}, {finding.check}: {finding.detail}"
    if report.prompts.unreproducible:
        yield report.prompts.why
    yield from verify_with_bundle_verifier(events, blobs)


def verify_with_bundle_verifier(
    events: list[RecordedEvent], blobs: Mapping[Digest, bytes]
) -> Iterator[str]:
    """Say what the verifier of bundles finds, or reads back otherwise than we do."""
    # Whether an erasure in the library says so is no matter of a session's log.
    closures = list_source_closures(events).values()
    gone = [format_leaf_runs(name, runs) for each in closures for name, runs in each.items()]
    session, first = EventChain(gone=gone), events[0]
    try:
        found = {str(each.sequence): get_box_key(each.stored) for each in events}
        keys = {number: key.hex() for number, key in found.items() if key}
        lines = [event.stored for event in events]
        session.read_lines(lines, first.tenant, first.session, keys)
    except VerificationFailure as wrong:
        yield f"by the stranger: {wrong}"
    for place, call in session.iterate_calls():
        try:
            verify_prompt(call, session, blobs)
        except (VerificationFailure, *MALFORMED) as wrong:
            yield f"event {place}, by the stranger: {wrong!r}"
    own = [each for each in events if isinstance(each.event, ContextAssembled)]
    own_count = sum(not is_closed(each) for each in own)
    if own_count != len(tuple(session.iterate_calls())):
        yield "the stranger counts other calls"
