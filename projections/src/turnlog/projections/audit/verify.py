from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from turnlog.events.content import Digest, compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.links import parse_chain_header
from turnlog.projections.audit.chain import WitnessedHead, verify_chain
from turnlog.projections.audit.conduct import check_settlements, check_tool_calls
from turnlog.projections.audit.findings import AuditFinding, sort_findings
from turnlog.projections.audit.picking import filter_by_type
from turnlog.projections.audit.prompts import VerificationContext, verify_prompts
from turnlog.projections.audit.report import VerificationReport
from turnlog.projections.audit.retelling import BLOB_NAMING_TYPES, list_event_blobs
from turnlog.projections.audit.totals import compute_totals
from turnlog.projections.audit.unread import UndecodableEvent


def verify_session(
    events: Sequence[RecordedEvent],
    blobs: Mapping[Digest, str],
    context: VerificationContext,
    witnessed_head: WitnessedHead | None = None,
    undecodable: Sequence[UndecodableEvent] = (),
) -> VerificationReport:
    """Verify all events of a session, given in stored order, with the blobs they name."""
    links = tuple(verify_chain(events, undecodable, witnessed_head))
    garbled = tuple(_find_undecodable(undecodable))
    told = {each.sequence for each in links}
    sound = {digest: text for digest, text in blobs.items() if compute_digest(text) == digest}
    lost = tuple(_find_lost_blobs(events, blobs, sound))
    gone = {each.sequence for each in (*links, *garbled) if each.check == "log"}
    had, unproven = verify_prompts(events, gone, sound, context)
    more = (each for each in garbled if each.sequence not in told)
    found = (*links, *more, *check_settlements(events), *check_tool_calls(events), *lost, *unproven)
    return VerificationReport(
        head=events[-1].head if events else None,
        events=len(events),
        prompts=had,
        totals=compute_totals(events),
        findings=sort_findings(found),
        witnessed=witnessed_head is not None,
    )


def _find_undecodable(undecodable: Iterable[UndecodableEvent]) -> Iterator[AuditFinding]:
    """Yield a finding for each undecodable event with a readable header; the chain may repeat it.
    """
    for each in undecodable:
        if link := parse_chain_header(each.raw.stored):
            detail = f"it cannot be read: {each.detail}"
            yield AuditFinding("integrity", "log", link.sequence, detail)


def _find_lost_blobs(
    events: Sequence[RecordedEvent], blobs: Container[Digest], sound: Container[Digest]
) -> Iterator[AuditFinding]:
    """Yield a finding at the first event that names a missing or altered blob."""
    told: set[Digest] = set()
    for recorded in filter_by_type(events, *BLOB_NAMING_TYPES):
        for digest in list_event_blobs(recorded):
            if digest in sound or digest in told:
                continue
            told.add(digest)
            if digest in blobs:
                detail = f"it names blob {digest}, whose bytes have changed"
                yield AuditFinding("integrity", "blobs", recorded.sequence, detail)
            else:
                detail = f"it names blob {digest}, which is gone"
                yield AuditFinding("completeness", "blobs", recorded.sequence, detail)
