from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TypeVar

from turnlog.projections.audit.chain import ChainKey
from turnlog.projections.audit.findings import AuditFinding, VerdictName
from turnlog.projections.audit.report import VerificationReport, ReproductionCounts, AuditVerdicts, build_verdicts
from turnlog.projections.audit.totals import SessionTotals

Figures = TypeVar("Figures", ReproductionCounts, SessionTotals)


@dataclass(slots=True)
class VerificationTally:
    """The results of verifying a whole log, added up session by session."""

    witnessed: bool
    """Whether the log is compared with heads noted earlier."""
    sessions: int = 0
    prompts: ReproductionCounts = field(default_factory=ReproductionCounts)
    totals: SessionTotals = field(default_factory=lambda: SessionTotals(0))
    elsewhere: bool = False
    """Whether the read models of some session are at another sequence."""
    unsound: set[ChainKey] = field(default_factory=set[ChainKey])
    against: set[VerdictName] = field(default_factory=set[VerdictName])
    findings: int = 0

    def add_finding(self, key: ChainKey, finding: AuditFinding) -> None:
        """Count a finding."""
        self.findings += 1
        self.unsound.add(key)
        self.against.add(finding.verdict)

    def add_report(self, report: VerificationReport) -> None:
        """Add the report of a session; its findings are counted by `add_finding`."""
        self.sessions += 1
        self.prompts = _add_figures(self.prompts, report.prompts)
        self.totals = _add_figures(self.totals, report.totals)
        self.elsewhere |= not report.compared

    @property
    def verdicts(self) -> AuditVerdicts:
        """The verdict on each promise."""
        compared = not self.elsewhere
        return build_verdicts(self.against, self.prompts, witnessed=self.witnessed, compared=compared)


def _add_figures(one: Figures, other: Figures) -> Figures:
    """Add the figures field by field; of two texts, keep the first non-empty one."""
    added = {
        each.name: getattr(one, each.name) + getattr(other, each.name)
        if isinstance(getattr(one, each.name), int)
        else getattr(one, each.name) or getattr(other, each.name)
        for each in fields(one)
    }
    return type(one)(**added)
