"""Checks that words are gone exactly where an erasure says so.

A key that is gone without an erasure was lost, and words that can be read after one were left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.redaction_events import ContentErased, ErasureBegun
from turnlog.events.seals.leaf_sets import (
    LIBRARY_PREFIX,
    LeafRuns,
    has_common_leaf,
    parse_leaf_runs,
)
from turnlog.events.seals.sealed_payload import parse_sealed_header
from turnlog.projections.audit.record.erasure_reach import is_closed, is_under
from turnlog.projections.audit.verify.audit_findings import AuditFinding

LOST_DETAIL: Final = "the keys of its words are gone, and no erasure says so"


def check_erasures(events: Sequence[RecordedEvent]) -> Iterator[AuditFinding]:
    """Yield a finding for each event that is erased without an erasure, or not erased by one.

    What has keys of the library may be erased there; see `list_source_closures`.
    """
    begun = {
        each.sequence: parse_leaf_runs(each.event.leaves) or {}
        for each in events
        if isinstance(each.event, ErasureBegun)
    }
    ended = {each.event.begun for each in events if isinstance(each.event, ContentErased)}
    for recorded in events:
        named = [at for at, leaves in begun.items() if is_under(recorded, leaves)]
        if is_closed(recorded) and not named and not list_library_runs(recorded):
            yield AuditFinding("integrity", "erasure", recorded.sequence, LOST_DETAIL)
        left = next((at for at in named if at in ended and at > recorded.sequence), None)
        if left and not is_closed(recorded):
            detail = f"its words can be read, although event {left} erased them"
            yield AuditFinding("integrity", "erasure", recorded.sequence, detail)


def list_source_closures(events: Sequence[RecordedEvent]) -> dict[int, LeafRuns]:
    """Return the keys of the library of each event that is erased by no erasure of its session."""
    begun = [
        parse_leaf_runs(each.event.leaves) or {}
        for each in events
        if isinstance(each.event, ErasureBegun)
    ]
    closed = (each for each in events if is_closed(each))
    return {
        each.sequence: runs
        for each in closed
        if (runs := list_library_runs(each)) and not any(is_under(each, own) for own in begun)
    }


def list_library_runs(recorded: RecordedEvent) -> LeafRuns:
    """Return the keys of the library that an event is under."""
    header = parse_sealed_header(recorded.stored)
    runs = (parse_leaf_runs(header.leaves) if header else None) or {}
    return {name: found for name, found in runs.items() if name.startswith(LIBRARY_PREFIX)}


def check_source_closures(
    closures: Mapping[int, LeafRuns], erased: Iterable[LeafRuns]
) -> Iterator[AuditFinding]:
    """Yield a finding for each of these events whose keys no erasure in the library names."""
    named = tuple(erased)
    for sequence, runs in closures.items():
        if not any(has_common_leaf(runs, each) for each in named):
            yield AuditFinding("integrity", "erasure", sequence, LOST_DETAIL)
