"""The doctor's findings on a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.table import Table
from rich.text import Text

from turnlog.services.cli.doctor.finding import Finding, Verdict
from turnlog.services.cli.screens.palette import BAD, GOOD, QUIET, WARY

_MARKS: Final[dict[Verdict, Text]] = {
    "good": Text("✓", GOOD),
    "wary": Text("!", WARY),
    "bad": Text("✗", BAD),
}


def finding_table(findings: Iterable[Finding]) -> Table:
    """Lay out findings, one a line, with the way out below what is not good."""
    table = Table.grid(padding=(0, 2))
    for finding in findings:
        table.add_row(_MARKS[finding.verdict], Text(finding.what, "bold"), Text(finding.said))
        if finding.fix:
            table.add_row("", Text("do", QUIET), Text(finding.fix))
    return table
