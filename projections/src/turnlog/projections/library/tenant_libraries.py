"""The segment libraries of all tenants, folded from the library stream.

A history that cannot be folded (an event that cannot be decoded or does not follow the one before
it) stops its own tenant and no other. Later events of that tenant are skipped until a release that
can fold them reads the stream from the beginning. Stray messages are passed over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from turnlog.events.chain_link import find_chain_break
from turnlog.events.codec import decode_event, decode_segment_event
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.model.segment_events import SEGMENT_FAMILY
from turnlog.events.store.ports import RawEvent
from turnlog.events.stray_messages import is_stray
from turnlog.projections.library.segment_library import (
    LibrarySegment,
    SegmentLibrary,
    build_command_result,
    fold,
)


@dataclass(frozen=True, slots=True)
class LibraryChange:
    """A tenant's library after a batch of events."""

    library: SegmentLibrary
    segments: tuple[LibrarySegment, ...]
    """The segments that the batch changed."""
    stop_reason: str | None = None
    """Why the history could not be folded further, or None."""


@dataclass(slots=True)
class TenantLibraries:
    """The libraries of all tenants."""

    libraries: dict[str, SegmentLibrary] = field(default_factory=dict[str, SegmentLibrary])
    stop_reasons: dict[str, str] = field(default_factory=dict[str, str])

    def apply_events(self, raws: Iterable[RawEvent]) -> tuple[LibraryChange, ...]:
        """Apply stored events in order; return a change for each tenant concerned."""
        runs: dict[str, list[RecordedEvent]] = {}
        for raw in raws:
            tenant = _parse_tenant(raw)
            if tenant is None or tenant in self.stop_reasons or is_stray(raw.subject, raw.stored):
                continue
            run = runs.setdefault(tenant, [])
            head = run[-1].head if run else self._get_library(tenant).head
            try:
                run.append(_decode_event(raw, tenant, head))
            except Corrupt as error:
                self.stop_reasons[tenant] = str(error)
        return tuple(self._apply_run(tenant, run) for tenant, run in runs.items())

    def list_all(self) -> tuple[LibraryChange, ...]:
        """Return all segments of all tenants as changes."""
        tenants = {**self.libraries, **self.stop_reasons}
        return tuple(self._build_change(each, self._get_library(each).segments) for each in tenants)

    def _get_library(self, tenant: str) -> SegmentLibrary:
        return self.libraries.get(tenant) or SegmentLibrary(tenant=tenant)

    def _apply_run(self, tenant: str, run: Sequence[RecordedEvent]) -> LibraryChange:
        self.libraries[tenant] = fold(run, self._get_library(tenant))
        result = build_command_result(run)
        return self._build_change(tenant, {*result.added, *result.edited})

    def _build_change(self, tenant: str, touched: Collection[int]) -> LibraryChange:
        library = self._get_library(tenant)
        segments = tuple(one for number, one in library.segments.items() if number in touched)
        return LibraryChange(library, segments, self.stop_reasons.get(tenant))


def _parse_tenant(raw: RawEvent) -> str | None:
    """Return the tenant whose segments the subject is about; None for other subjects."""
    match raw.subject.split("."):
        case ["library", tenant, family, _] if family == SEGMENT_FAMILY:
            return tenant
        case _:
            return None


def _decode_event(raw: RawEvent, tenant: str, head: ChainHead | None) -> RecordedEvent:
    """Decode an event; raise `Corrupt` if it does not follow `head` in this tenant's history."""
    recorded = decode_event(raw.stored, raw.stream_sequence)
    place = f"LIBRARY, stream sequence {raw.stream_sequence}"
    if (recorded.tenant, recorded.session) != (tenant, SEGMENT_FAMILY):
        raise Corrupt(place, f"says it is of {recorded.tenant}/{recorded.session}")
    last = (head.sequence, head.hash) if head else (0, None)
    if fault := find_chain_break(recorded, *last):
        raise Corrupt(place, fault)
    decode_segment_event(recorded)
    return recorded
