from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from turnlog.services.cli.console import create_output_console as answer_console
from turnlog.services.cli.console import print_json
from turnlog.services.cli.doctor import machine, proof, server
from turnlog.services.cli.doctor.finding import CheckFinding
from turnlog.services.cli.doctor.screen import render_findings
from turnlog.services.cli.environment import read_settings
from turnlog.services.cli.options import ServiceTarget
from turnlog.services.cli.place import is_answering, read_ready_address
from turnlog.services.cli.show import OutputFormat
from turnlog.services.up.settings import AllInOneSettings


async def run_checks(target: ServiceTarget, environ: Mapping[str, str]) -> tuple[CheckFinding, ...]:
    """Run all checks; nothing is changed."""
    settings = read_settings(AllInOneSettings, environ)
    address = target.url or read_ready_address(target.data_dir)
    running = address if address and is_answering(address) else None
    return (
        await server.check_nats_binary(),
        *await server.check_jetstream(),
        machine.check_data_dir(target.data_dir),
        machine.check_disk(target.data_dir),
        machine.check_http_port(settings.http, running),
        machine.check_clock(target.data_dir),
        server.check_read_model_schema(target.data_dir),
        proof.check_checkpoints(target.data_dir),
        machine.check_model_library(),
    )


def print_findings(findings: Sequence[CheckFinding], output: OutputFormat) -> bool:
    """Print the findings; return whether a service can start."""
    if output == "json":
        print_json([asdict(finding) for finding in findings])
    else:
        answer_console().print(render_findings(findings))
    return all(finding.verdict != "bad" for finding in findings)
