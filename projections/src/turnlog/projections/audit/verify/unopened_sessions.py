"""Sealed sessions that cannot be opened, because the process that verifies lacks their keyring.

Their chain is verified like any other, since it is computed over what is stored; nothing else is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from turnlog.events.errors import KeyringMissing
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.seals.sealed_payload import SealedPayload, parse_sealed_header
from turnlog.events.store.ports import RawEvent
from turnlog.projections.audit.verify.audit_findings import AuditFinding
from turnlog.projections.audit.verify.verdicts import NO_REPRODUCTIONS
from turnlog.projections.audit.verify.verification_report import SessionTotals, VerificationReport


def report_unopened(stored: Sequence[RawEvent]) -> VerificationReport | None:
    """Return the report of a session that is sealed and has come without its keys, or None."""
    unopened = [raw.stored for raw in stored if not isinstance(raw.stored, SealedPayload)]
    sealed = list(filter(None, map(parse_sealed_header, unopened)))
    if not sealed:
        return None
    calls = sum(each.place.kind == ContextAssembled.type for each in sealed)
    return VerificationReport(
        head=None,
        events=len(stored),
        prompts=replace(
            NO_REPRODUCTIONS,
            calls=calls,
            unchecked=calls,
            behind="those of sealed sessions, without their keyring" if calls else "",
        ),
        totals=SessionTotals(sequence=0),
        findings=(AuditFinding("reproduction", "keyring", None, KeyringMissing("it").detail),),
    )
