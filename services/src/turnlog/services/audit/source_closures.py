"""The erasures in the library of a tenant, which say what of sessions may be unreadable."""

from __future__ import annotations

from collections.abc import Sequence

from turnlog.events.codec import decode_library_event
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.redaction_events import ERASURE_LEAF, SourceErasureBegun
from turnlog.events.seals.leaf_sets import (
    LIBRARY_PREFIX,
    LeafRuns,
    has_common_leaf,
    parse_leaf_runs,
)
from turnlog.events.store.ports import EventLog
from turnlog.projections.audit.verify.erasure_checks import check_source_closures
from turnlog.projections.audit.verify.verification_report import VerificationReport
from turnlog.projections.library.source_erasures import ERASABLE_FAMILIES


async def load_source_erasures(
    library: EventLog, tenant: str, reached: Sequence[LeafRuns]
) -> Sequence[RecordedEvent]:
    """Return the events that began an erasure in the library which names some of these keys."""
    families = {name.removeprefix(LIBRARY_PREFIX) for each in reached for name in each}
    found = list[RecordedEvent]()
    for family in sorted(families & frozenset(ERASABLE_FAMILIES)):
        last = await library.read_last_event(tenant, family)
        if last is not None:
            events = await library.read_events_by_leaf(tenant, family, ERASURE_LEAF, last.head)
            begun = [(each, list_begun_runs(each)) for each in events]
            found += [
                each for each, gone in begun if any(has_common_leaf(gone, runs) for runs in reached)
            ]
    return found


def list_begun_runs(recorded: RecordedEvent) -> LeafRuns:
    """Return the keys that an erasure in the library names; none of another event."""
    event = decode_library_event(recorded)
    runs = parse_leaf_runs(event.leaves) if isinstance(event, SourceErasureBegun) else None
    return runs or {}


async def verify_closures(
    library: EventLog, tenant: str, report: VerificationReport
) -> VerificationReport:
    """Return the report with a finding for each erased event that no erasure names."""
    if not report.source_closures:
        return report
    reached = tuple(report.source_closures.values())
    begun = await load_source_erasures(library, tenant, reached)
    named = map(list_begun_runs, begun)
    findings = tuple(check_source_closures(report.source_closures, named))
    return report.add_findings(findings) if findings else report
