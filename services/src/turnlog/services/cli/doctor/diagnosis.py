"""Run all checks of the doctor and print their findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Final

from rich.table import Table
from rich.text import Text

from turnlog.services.cli.client.service_location import is_answering, read_ready_address
from turnlog.services.cli.console import OutputFormat, print_json
from turnlog.services.cli.console import create_output_console as answer_console
from turnlog.services.cli.doctor import machine_checks
from turnlog.services.cli.doctor.machine_checks import CheckFinding, CheckVerdict
from turnlog.services.cli.environment import read_settings
from turnlog.services.cli.options import ServiceTarget
from turnlog.services.cli.views.theme import BAD, GOOD, MUTED, WARNING
from turnlog.services.platform.process_settings import AllInOneSettings

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


async def run_checks(target: ServiceTarget, environ: Mapping[str, str]) -> tuple[CheckFinding, ...]:
    """Run all checks; nothing is changed."""
    settings = read_settings(AllInOneSettings, environ)
    address = target.url or read_ready_address(target.data_dir)
    running = address if address and is_answering(address) else None
    return (
        await machine_checks.check_nats_binary(),
        *await machine_checks.check_jetstream(),
        machine_checks.check_data_dir(target.data_dir),
        machine_checks.check_disk(target.data_dir),
        machine_checks.check_http_port(settings.http, running),
        machine_checks.check_clock(target.data_dir),
        machine_checks.check_read_model_schema(target.data_dir),
        machine_checks.check_checkpoints(target.data_dir),
        machine_checks.check_model_library(),
    )


def print_findings(findings: Sequence[CheckFinding], output: OutputFormat) -> bool:
    """Print the findings; return whether a service can start."""
    if output == "json":
        print_json([asdict(finding) for finding in findings])
    else:
        answer_console().print(render_findings(findings))
    return all(finding.verdict != "bad" for finding in findings)
