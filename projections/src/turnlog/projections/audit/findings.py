"""What verification returns: findings, totals, and a report with four verdicts.

A record makes four promises: its bytes are unaltered (integrity), none is missing (completeness),
every prompt can be reproduced, and the read models agree with the log (totals). They are judged
separately, since one may fail while the others hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

VerdictName = Literal["integrity", "completeness", "reproduction", "totals"]
"""The promise that a finding is against."""
CheckName = Literal[
    "log",
    "sequence",
    "chain",
    "noted",
    "answers",
    "tools",
    "blobs",
    "reference",
    "assembly",
    "totals",
]
"""The check that made the finding."""


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """Something that is wrong with a record."""

    verdict: VerdictName
    check: CheckName
    sequence: int | None
    """Sequence of the event at fault; None where it cannot be determined."""
    detail: str


def sort_findings(findings: Iterable[AuditFinding]) -> tuple[AuditFinding, ...]:
    """Return the findings ordered by the sequence of their events."""
    return tuple(sorted(findings, key=lambda finding: finding.sequence or 0))
