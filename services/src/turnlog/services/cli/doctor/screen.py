"""Run all checks of the doctor and print their findings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from rich.table import Table
from rich.text import Text

from turnlog.services.cli.doctor.finding import CheckFinding, CheckVerdict
from turnlog.services.cli.screens.palette import BAD, GOOD, MUTED, WARNING

_MARKS: Final[dict[CheckVerdict, Text]] = {
    "good": Text("✓", GOOD),
    "wary": Text("!", WARNING),
    "bad": Text("✗", BAD),
}


def render_findings(findings: Iterable[CheckFinding]) -> Table:
    """Render findings one per line, with the fix below a warning or failure."""
    table = Table.grid(padding=(0, 2))
    for finding in findings:
        table.add_row(_MARKS[finding.verdict], Text(finding.what, "bold"), Text(finding.said))
        if finding.fix:
            table.add_row("", Text("do", MUTED), Text(finding.fix))
    return table
