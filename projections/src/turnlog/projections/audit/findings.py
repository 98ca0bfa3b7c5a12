"""Findings: what is wrong with a record, each said against one of its promises.

That bytes are as they were written, that none is missing, that every prompt can be had again, and
that the read models say what the log says are four things: one may fail while the others hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["integrity", "completeness", "reproduction", "totals"]
"""Which promise."""
Check = Literal[
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
"""What was looked at."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong."""

    verdict: Verdict
    check: Check
    sequence: int | None
    """The event it was found at; none where that cannot be told."""
    detail: str


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Put findings in the order of their events, the first bad one first."""
    return tuple(sorted(findings, key=lambda finding: finding.sequence or 0))
