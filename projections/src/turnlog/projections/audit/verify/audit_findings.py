"""A finding of verification: which check made it, where, and which verdict it affects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

VerdictName = Literal["integrity", "completeness", "reproduction", "totals"]
"""The promise that a finding is against."""

CheckName = Literal[
    "log",
    "stream",
    "keyring",
    "sequence",
    "chain",
    "noted",
    "answers",
    "tools",
    "children",
    "blobs",
    "reference",
    "assembly",
    "erasure",
    "totals",
]
"""The check that made the finding; `keyring` says that nothing could be checked without one."""


ReproductionOutcome = Literal["reproduced", "failed", "unreproducible"]
"""`unreproducible` is no failure: this version or installation cannot decide."""


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """Something that is wrong with a record."""

    verdict: VerdictName
    """The verdict that it affects."""
    check: CheckName
    """The check that found it."""
    sequence: int | None
    """The sequence of the event at fault; None where it cannot be determined."""
    detail: str
    """What is wrong."""


def list_failed_promises(findings: Iterable[AuditFinding]) -> set[VerdictName]:
    """Return the promises that do not hold; one that could not be checked is none of them."""
    return {finding.verdict for finding in findings if finding.check != "keyring"}


def sort_findings(findings: Iterable[AuditFinding]) -> tuple[AuditFinding, ...]:
    """Return the findings ordered by the sequence of their events."""
    return tuple(sorted(findings, key=lambda finding: finding.sequence or 0))
