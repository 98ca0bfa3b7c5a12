"""The four verdicts on a record, and what each is decided by.

A record makes four promises: its bytes are unaltered (integrity), none is missing (completeness),
every prompt can be reproduced, and the read models agree with the log (totals). They are judged
separately, since one may fail while the others hold.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Literal

from turnlog.projections.audit.verify.audit_findings import VerdictName

Integrity = Literal["intact", "broken"]
"""Whether the stored bytes are as they were written."""


Completeness = Literal["witnessed", "unwitnessed", "incomplete"]
"""Whether events are missing.

`witnessed` means that a head noted earlier is still there. Without such a head, a record that was
cut at its end looks complete: `unwitnessed`.
"""


Reproduction = Literal["reproduced", "erased", "failed", "unreproducible", "unchecked"]
"""Whether every prompt was reproduced in both ways.

`erased` says that words of some were erased, and that all others were reproduced.
`unreproducible` is a limit of this version or installation; `unchecked` says that calls lie behind
a gap.
"""


TotalsAgreement = Literal["equal", "differ", "elsewhere"]
"""Whether the read models agree with the log; `elsewhere` means that they are at another sequence.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproductionCounts:
    """How many prompts were reproduced, by which way, and how many were not."""

    calls: int
    """Calls with a recorded prompt."""
    reference: int
    """Prompts reproduced by the references of their manifests."""
    assembly: int
    """Prompts reproduced by assembling them again."""
    unreproducible: int
    """Prompts that this version or installation cannot assemble again."""
    why: str
    """What has changed since, for the first of those."""
    erased: int
    """Prompts with words that were erased."""
    unchecked: int
    """Prompts after a gap in the log."""
    behind: str
    """The range of the first of those, and its gap."""


NO_REPRODUCTIONS: Final = ReproductionCounts(
    calls=0, reference=0, assembly=0, unreproducible=0, why="", erased=0, unchecked=0, behind=""
)
"""The counts of a log without calls."""


@dataclass(frozen=True, slots=True)
class AuditVerdicts:
    """The verdict on each promise."""

    integrity: Integrity
    completeness: Completeness
    reproduction: Reproduction
    totals: TotalsAgreement


def build_verdicts(
    against: Collection[VerdictName],
    prompts: ReproductionCounts,
    *,
    witnessed: bool,
    compared: bool,
) -> AuditVerdicts:
    """Build the verdicts from the promises `against` which something was found.

    `witnessed` and `compared` say whether a noted head and the read models were available.
    """
    completeness: Completeness = "witnessed" if witnessed else "unwitnessed"
    alike: TotalsAgreement = "equal" if compared else "elsewhere"
    return AuditVerdicts(
        integrity="broken" if "integrity" in against else "intact",
        completeness="incomplete" if "completeness" in against else completeness,
        reproduction="failed" if "reproduction" in against else _decide_reproduction(prompts),
        totals="differ" if "totals" in against else alike,
    )


def _decide_reproduction(prompts: ReproductionCounts) -> Reproduction:
    if prompts.unchecked:
        return "unchecked"
    if prompts.unreproducible:
        return "unreproducible"
    return "erased" if prompts.erased else "reproduced"
