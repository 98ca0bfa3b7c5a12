"""What a check found, and how findings are shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Final, Literal

from rich.table import Table
from rich.text import Text

from turnlog.services.cli.console import OutputFormat, create_output_console, print_json
from turnlog.services.cli.views.theme import BAD, GOOD, MUTED, WARNING

CheckVerdict = Literal["good", "wary", "bad"]


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """The result of one check."""

    what: str
    verdict: CheckVerdict
    said: str
    fix: str = ""
    """What to do about a warning or a failure."""


def report_good(what: str, detail: str) -> CheckFinding:
    """Return the finding of a check that passed."""
    return CheckFinding(what, "good", detail)


def report_warning(what: str, detail: str, fix: str) -> CheckFinding:
    """Return the finding of something that works but may stop working."""
    return CheckFinding(what, "wary", detail, fix)


def report_failure(what: str, detail: str, fix: str) -> CheckFinding:
    """Return the finding of something that prevents a service from starting."""
    return CheckFinding(what, "bad", detail, fix)


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


def print_findings(findings: Sequence[CheckFinding], output: OutputFormat) -> bool:
    """Print the findings; return whether a service can start."""
    if output == "json":
        print_json([asdict(finding) for finding in findings])
    else:
        create_output_console().print(render_findings(findings))
    return all(finding.verdict != "bad" for finding in findings)
