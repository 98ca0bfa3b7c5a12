"""Commands that administer an installation: doctor, settings, rebuild of the read models."""

from __future__ import annotations

import os

import typer

from turnlog.services.cli.commands.command_runner import run_async
from turnlog.services.cli.options import LogTarget, OutputOption, ServiceTarget


def run_doctor(*, target: ServiceTarget, output: OutputOption = "table") -> None:
    """Check that this machine has what a service needs."""
    from turnlog.services.cli.doctor.diagnosis import print_findings, run_checks
    from turnlog.services.cli.error_display import ExitCode

    findings = run_async(run_checks(target, os.environ))
    if not print_findings(findings, output):
        raise typer.Exit(ExitCode.ERROR)


def show_config(*, output: OutputOption = "table") -> None:
    """Show every setting in force and where it comes from; secrets are masked."""
    from turnlog.services.cli.environment import list_effective_settings, print_settings

    print_settings(list_effective_settings(os.environ), output)


def rebuild_read_models(*, target: LogTarget) -> None:
    """Build the read models anew from the log, while readers keep the old ones."""
    from turnlog.services.cli.actions.read_model_rebuild import rebuild_read_models

    run_async(rebuild_read_models(target, os.environ))
