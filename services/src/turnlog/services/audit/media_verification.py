"""Verifies the pictures, recordings and files that sessions name, by reading them all."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field

from turnlog.events.content import Digest
from turnlog.events.errors import AlteredMedia, Corrupt, KeysErased
from turnlog.events.store.ports import MediaStore
from turnlog.projections.audit.verify.audit_findings import AuditFinding
from turnlog.projections.audit.verify.verification_report import VerificationReport


@dataclass(frozen=True, slots=True)
class MediaVerification:
    """What is known of one tenant's media; one for each run, in which none is read twice."""

    _faults: dict[Digest, Corrupt | None] = field(default_factory=dict[Digest, Corrupt | None])

    async def verify_media(
        self, store: MediaStore, tenant: str, report: VerificationReport
    ) -> VerificationReport:
        """Return the report with a finding for each item that is gone or altered."""
        findings = list[AuditFinding]()
        for digest, sequence in report.media.items():
            if digest not in self._faults:
                self._faults[digest] = await _find_fault(store, tenant, digest)
            if (fault := self._faults[digest]) is not None:
                findings.append(_describe_fault(fault, digest, sequence))
        return report.add_findings(findings) if findings else report


async def _find_fault(store: MediaStore, tenant: str, digest: Digest) -> Corrupt | None:
    """Read an item to its end, a chunk at a time; return what is wrong with it.

    Nothing is wrong with one whose keys were removed.
    """
    try:
        async with aclosing(store.stream_media(tenant, digest)) as chunks:
            async for _ in chunks:
                pass
    except KeysErased:
        return None
    except Corrupt as fault:
        return fault
    return None


def _describe_fault(fault: Corrupt, digest: Digest, sequence: int) -> AuditFinding:
    detail = f"it names media {digest}: {fault.detail}"
    if isinstance(fault, AlteredMedia):
        return AuditFinding("integrity", "blobs", sequence, detail)
    return AuditFinding("completeness", "blobs", sequence, detail)
