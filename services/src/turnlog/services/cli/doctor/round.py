from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from turnlog.services.cli.console import answers as answer_console
from turnlog.services.cli.console import print_json
from turnlog.services.cli.doctor import machine, proof, server
from turnlog.services.cli.doctor.finding import Finding
from turnlog.services.cli.doctor.screen import finding_table
from turnlog.services.cli.environment import read
from turnlog.services.cli.options import Served
from turnlog.services.cli.place import answers, ready_address
from turnlog.services.cli.show import Form
from turnlog.services.up.settings import UpSettings


async def examine(served: Served, environ: Mapping[str, str]) -> tuple[Finding, ...]:
    """Run all checks; nothing is changed."""
    settings = read(UpSettings, environ)
    address = served.url or ready_address(served.data_dir)
    running = address if address and answers(address) else None
    return (
        await server.binary(),
        *await server.jetstream(),
        machine.writable(served.data_dir),
        machine.disk(served.data_dir),
        machine.port(settings.http, running),
        machine.clock(served.data_dir),
        server.schema(served.data_dir),
        proof.checkpoints(served.data_dir),
        machine.models(),
    )


def show(findings: Sequence[Finding], form: Form) -> bool:
    """Print the findings; return whether a service can start."""
    if form == "json":
        print_json([asdict(finding) for finding in findings])
    else:
        answer_console().print(finding_table(findings))
    return all(finding.verdict != "bad" for finding in findings)
