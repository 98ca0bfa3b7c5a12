from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TypeVar

from turnlog.projections.audit.chain import Key
from turnlog.projections.audit.findings import Finding, Verdict
from turnlog.projections.audit.report import Report, Reproduced, Verdicts, verdicts
from turnlog.projections.audit.totals import Totals

Figures = TypeVar("Figures", Reproduced, Totals)


@dataclass(slots=True)
class Tally:
    """The results of verifying a whole log, added up session by session."""

    witnessed: bool
    """Whether the log is compared with heads noted earlier."""
    sessions: int = 0
    prompts: Reproduced = field(default_factory=Reproduced)
    totals: Totals = field(default_factory=lambda: Totals(0))
    elsewhere: bool = False
    """Whether the read models of some session are at another sequence."""
    unsound: set[Key] = field(default_factory=set[Key])
    against: set[Verdict] = field(default_factory=set[Verdict])
    findings: int = 0

    def found(self, key: Key, finding: Finding) -> None:
        """Count a finding."""
        self.findings += 1
        self.unsound.add(key)
        self.against.add(finding.verdict)

    def take(self, report: Report) -> None:
        """Add the report of a session; its findings are counted by `add_finding`."""
        self.sessions += 1
        self.prompts = _added(self.prompts, report.prompts)
        self.totals = _added(self.totals, report.totals)
        self.elsewhere |= not report.compared

    @property
    def verdicts(self) -> Verdicts:
        """The verdict on each promise."""
        compared = not self.elsewhere
        return verdicts(self.against, self.prompts, witnessed=self.witnessed, compared=compared)


def _added(one: Figures, other: Figures) -> Figures:
    """Add the figures field by field; of two texts, keep the first non-empty one."""
    added = {
        each.name: getattr(one, each.name) + getattr(other, each.name)
        if isinstance(getattr(one, each.name), int)
        else getattr(one, each.name) or getattr(other, each.name)
        for each in fields(one)
    }
    return type(one)(**added)
