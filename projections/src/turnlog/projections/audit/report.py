"""Reports: what verifying a session came to, as four verdicts and the findings behind them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from turnlog.events.envelope import Head
from turnlog.projections.audit.findings import Finding, Verdict
from turnlog.projections.audit.totals import Totals, differing

Integrity = Literal["intact", "broken"]
"""Whether what is there is as it was written."""
Completeness = Literal["witnessed", "unwitnessed", "incomplete"]
"""Whether somebody noted an end that is still there; a cut end shows to nobody else."""
Reproduction = Literal["reproduced", "failed", "unreproducible", "unchecked"]
"""Whether every prompt could be had again, both ways; `unreproducible` is for this version to
say of itself, `unchecked` of what lies behind a hole."""
Agreement = Literal["equal", "differ", "elsewhere"]
"""What the read models say beside the log; `elsewhere` is at another sequence."""


@dataclass(frozen=True, slots=True)
class Reproduced:
    """How many prompts were had again, and how."""

    calls: int = 0
    reference: int = 0
    """By following the references of their manifests."""
    assembly: int = 0
    """By assembling them again."""
    unreproducible: int = 0
    """That this version or this installation cannot assemble again."""
    why: str = ""
    """What has moved on, for the first of those."""
    unchecked: int = 0
    """That lie behind a hole."""
    behind: str = ""
    """Which they are and what the hole is, for the first of them."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What became of each promise."""

    integrity: Integrity
    completeness: Completeness
    reproduction: Reproduction
    totals: Agreement


def verdicts(
    against: Collection[Verdict], prompts: Reproduced, *, witnessed: bool, compared: bool
) -> Verdicts:
    """Judge by what was found `against` which promises, and by what was looked at."""
    whole: Completeness = "witnessed" if witnessed else "unwitnessed"
    alike: Agreement = "equal" if compared else "elsewhere"
    return Verdicts(
        integrity="broken" if "integrity" in against else "intact",
        completeness="incomplete" if "completeness" in against else whole,
        reproduction="failed" if "reproduction" in against else _told(prompts),
        totals="differ" if "totals" in against else alike,
    )


def _told(prompts: Reproduced) -> Reproduction:
    if prompts.unchecked:
        return "unchecked"
    return "unreproducible" if prompts.unreproducible else "reproduced"


@dataclass(frozen=True, slots=True)
class Report:
    """What verifying came to."""

    head: Head | None
    events: int
    prompts: Reproduced
    totals: Totals
    findings: tuple[Finding, ...]
    """In the order of the events they were found at."""
    witnessed: bool = False
    """Whether it was held against a head noted earlier."""
    compared: bool = False
    """Whether it was held against read models that stand where it ends."""

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def verdicts(self) -> Verdicts:
        """Say what that makes of each promise."""
        against: set[Verdict] = {finding.verdict for finding in self.findings}
        return verdicts(against, self.prompts, witnessed=self.witnessed, compared=self.compared)

    def beside(self, rows: Totals | None) -> Report:
        """Hold it against the read models; those that stand elsewhere say nothing."""
        if rows is None or rows.sequence != self.totals.sequence:
            return self
        found = (*self.findings, *differing(self.totals, rows))
        return replace(self, findings=found, compared=True)
