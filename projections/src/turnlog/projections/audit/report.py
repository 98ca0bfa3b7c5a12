from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Literal

from turnlog.events.envelope import Head
from turnlog.projections.audit.findings import Finding, Verdict
from turnlog.projections.audit.totals import Totals, differing

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
Agreement = Literal["equal", "differ", "elsewhere"]
"""Whether the read models agree with the log; `elsewhere` means that they are at another sequence.
"""


@dataclass(frozen=True, slots=True)
class Reproduced:
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
class Verdicts:
    """The verdict on each promise."""

    integrity: Integrity
    completeness: Completeness
    reproduction: Reproduction
    totals: Agreement


def verdicts(
    against: Collection[Verdict], prompts: Reproduced, *, witnessed: bool, compared: bool
) -> Verdicts:
    """Build the verdicts from the promises `against` which something was found.

    `witnessed` and `compared` say whether a noted head and the read models were available.
    """
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
    """The result of verifying one session."""

    head: Head | None
    events: int
    prompts: Reproduced
    totals: Totals
    findings: tuple[Finding, ...]
    """Ordered by the events they were found at."""
    witnessed: bool = False
    """Whether the session was compared with a head noted earlier."""
    compared: bool = False
    """Whether it was compared with read models at the same sequence."""

    @property
    def sound(self) -> bool:
        """Whether there are no findings."""
        return not self.findings

    @property
    def verdicts(self) -> Verdicts:
        """The verdict on each promise."""
        against: set[Verdict] = {finding.verdict for finding in self.findings}
        return verdicts(against, self.prompts, witnessed=self.witnessed, compared=self.compared)

    def beside(self, rows: Totals | None) -> Report:
        """Compare the totals with the read models; rows at another sequence are ignored."""
        if rows is None or rows.sequence != self.totals.sequence:
            return self
        found = (*self.findings, *differing(self.totals, rows))
        return replace(self, findings=found, compared=True)
