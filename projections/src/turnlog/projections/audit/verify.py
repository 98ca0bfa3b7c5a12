from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from turnlog.events.content import Digest, digest_of
from turnlog.events.envelope import Recorded
from turnlog.events.links import link_of
from turnlog.projections.audit.chain import Noted, broken
from turnlog.projections.audit.conduct import answers, tools
from turnlog.projections.audit.findings import Finding, in_order
from turnlog.projections.audit.picking import of_kinds
from turnlog.projections.audit.prompts import Means, prompts
from turnlog.projections.audit.report import Report
from turnlog.projections.audit.retelling import NAMING, blobs_in
from turnlog.projections.audit.totals import totals
from turnlog.projections.audit.unread import Unread


def verify(
    events: Sequence[Recorded],
    blobs: Mapping[Digest, str],
    means: Means,
    noted: Noted | None = None,
    unread: Sequence[Unread] = (),
) -> Report:
    """Verify all events of a session, given in stored order, with the blobs they name."""
    links = tuple(broken(events, unread, noted))
    garbled = tuple(_garbled(unread))
    told = {each.sequence for each in links}
    sound = {digest: text for digest, text in blobs.items() if digest_of(text) == digest}
    lost = tuple(_lost(events, blobs, sound))
    gone = {each.sequence for each in (*links, *garbled) if each.check == "log"}
    had, unproven = prompts(events, gone, sound, means)
    more = (each for each in garbled if each.sequence not in told)
    found = (*links, *more, *answers(events), *tools(events), *lost, *unproven)
    return Report(
        head=events[-1].head if events else None,
        events=len(events),
        prompts=had,
        totals=totals(events),
        findings=in_order(found),
        witnessed=noted is not None,
    )


def _garbled(unread: Iterable[Unread]) -> Iterator[Finding]:
    """Yield a finding for each undecodable event with a readable header; the chain may repeat it.
    """
    for each in unread:
        if link := link_of(each.raw.stored):
            detail = f"it cannot be read: {each.why}"
            yield Finding("integrity", "log", link.sequence, detail)


def _lost(
    events: Sequence[Recorded], blobs: Container[Digest], sound: Container[Digest]
) -> Iterator[Finding]:
    """Yield a finding at the first event that names a missing or altered blob."""
    told: set[Digest] = set()
    for recorded in of_kinds(events, *NAMING):
        for digest in blobs_in(recorded):
            if digest in sound or digest in told:
                continue
            told.add(digest)
            if digest in blobs:
                detail = f"it names blob {digest}, whose bytes have changed"
                yield Finding("integrity", "blobs", recorded.sequence, detail)
            else:
                detail = f"it names blob {digest}, which is gone"
                yield Finding("completeness", "blobs", recorded.sequence, detail)
