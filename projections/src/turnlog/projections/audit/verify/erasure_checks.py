"""Checks that words are gone exactly where an erasure says so.

A key that is gone without an erasure was lost, and words that can be read after one were left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.redaction_events import ContentErased, ErasureBegun
from turnlog.events.seals.leaf_sets import parse_leaf_runs
from turnlog.projections.audit.record.erasure_reach import is_closed, is_under
from turnlog.projections.audit.verify.audit_findings import AuditFinding


def check_erasures(events: Sequence[RecordedEvent]) -> Iterator[AuditFinding]:
    """Yield a finding for each event that is erased without an erasure, or not erased by one."""
    begun = {
        each.sequence: parse_leaf_runs(each.event.leaves) or {}
        for each in events
        if isinstance(each.event, ErasureBegun)
    }
    ended = {each.event.begun for each in events if isinstance(each.event, ContentErased)}
    for recorded in events:
        named = [at for at, leaves in begun.items() if is_under(recorded, leaves)]
        if is_closed(recorded) and not named:
            detail = "the keys of its words are gone, and no erasure says so"
            yield AuditFinding("integrity", "erasure", recorded.sequence, detail)
        left = next((at for at in named if at in ended and at > recorded.sequence), None)
        if left and not is_closed(recorded):
            detail = f"its words can be read, although event {left} erased them"
            yield AuditFinding("integrity", "erasure", recorded.sequence, detail)
