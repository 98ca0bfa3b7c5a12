from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from turnlog.events.envelope import ChainHead
from turnlog.projections.audit.findings import AuditFinding, VerdictName
from turnlog.projections.audit.totals import SessionTotals, compare_totals

Integrity = Literal["intact", "broken"]
"""Whether the stored bytes are as they were written."""
Completeness = Literal["witnessed", "unwitnessed", "incomplete"]
"""Whether events are missing.

`witnessed` means that a head noted earlier is still there. Without such a head, a record that was
cut at its end looks complete: `unwitnessed`.
"""
Reproduction = Literal["reproduced", "failed", "unreproducible", "unchecked"]
"""Whether every prompt was reproduced in both ways.

`unreproducible` is a limit of this version or installation; `unchecked` says that calls lie behind
a gap.
"""
TotalsAgreement = Literal["equal", "differ", "elsewhere"]
"""Whether the read models agree with the log; `elsewhere` means that they are at another sequence.
"""


@dataclass(frozen=True, slots=True)
class ReproductionCounts:
    """How many prompts were reproduced, by which way, and how many were not."""

    calls: int = 0
    reference: int = 0
    """By following the references of their manifests."""
    assembly: int = 0
    """By assembling them again."""
    unreproducible: int = 0
    """Calls that this version or installation cannot assemble again."""
    why: str = ""
    """What has changed since the first of those calls was recorded."""
    unchecked: int = 0
    """Calls that lie behind a gap."""
    behind: str = ""
    """Which calls lie behind the first gap, and what the gap is."""


@dataclass(frozen=True, slots=True)
class AuditVerdicts:
    """The verdict on each promise."""

    integrity: Integrity
    completeness: Completeness
    reproduction: Reproduction
    totals: TotalsAgreement


def build_verdicts(
    against: Collection[VerdictName], prompts: ReproductionCounts, *, witnessed: bool, compared: bool
) -> AuditVerdicts:
    """Build the verdicts from the promises `against` which something was found.

    `witnessed` and `compared` say whether a noted head and the read models were available.
    """
    whole: Completeness = "witnessed" if witnessed else "unwitnessed"
    alike: TotalsAgreement = "equal" if compared else "elsewhere"
    return AuditVerdicts(
        integrity="broken" if "integrity" in against else "intact",
        completeness="incomplete" if "completeness" in against else whole,
        reproduction="failed" if "reproduction" in against else _decide_reproduction(prompts),
        totals="differ" if "totals" in against else alike,
    )


def _decide_reproduction(prompts: ReproductionCounts) -> Reproduction:
    if prompts.unchecked:
        return "unchecked"
    return "unreproducible" if prompts.unreproducible else "reproduced"


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """The result of verifying one session."""

    head: ChainHead | None
    events: int
    prompts: ReproductionCounts
    totals: SessionTotals
    findings: tuple[AuditFinding, ...]
    """Ordered by the events they were found at."""
    witnessed: bool = False
    """Whether the session was compared with a head noted earlier."""
    compared: bool = False
    """Whether it was compared with read models at the same sequence."""

    @property
    def is_sound(self) -> bool:
        """Whether there are no findings."""
        return not self.findings

    @property
    def verdicts(self) -> AuditVerdicts:
        """The verdict on each promise."""
        against: set[VerdictName] = {finding.verdict for finding in self.findings}
        return build_verdicts(against, self.prompts, witnessed=self.witnessed, compared=self.compared)

    def compare_rows(self, rows: SessionTotals | None) -> VerificationReport:
        """Compare the totals with the read models; rows at another sequence are ignored."""
        if rows is None or rows.sequence != self.totals.sequence:
            return self
        found = (*self.findings, *compare_totals(self.totals, rows))
        return replace(self, findings=found, compared=True)
