"""Commands that administer an installation: doctor, settings, rebuild and quarantine."""

from __future__ import annotations

import os

import typer

from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.services.cli.command_runner import run_async, show_answer
from turnlog.services.cli.options import (
    DEFAULT_DATA_DIR,
    DataDirOption,
    LogTarget,
    OutputOption,
    ReadTarget,
    ServiceTarget,
    SessionArgument,
)


def run_doctor(*, target: ServiceTarget, output: OutputOption = "table") -> None:
    """Check the set-up that is configured, and that this machine has what it needs.

    With TURNLOG_NATS_URL or another variable of roles of their own, their NATS and database are
    examined; otherwise the data directory.
    """
    from turnlog.services.api.published_errors.error_code import ExitCode
    from turnlog.services.cli.doctor.check_findings import print_findings
    from turnlog.services.cli.doctor.doctor_run import run_checks

    findings = run_async(run_checks(target, os.environ))
    if not print_findings(findings, output):
        raise typer.Exit(ExitCode.ERROR)


def show_config(
    *, data_dir: DataDirOption = DEFAULT_DATA_DIR, output: OutputOption = "table"
) -> None:
    """Show what each role takes and where it comes from; secrets are masked.

    `up` takes some settings from its data directory. `commands` are those of this program that open
    a data directory without a running service.
    """
    from turnlog.services.cli.environment import list_effective_settings
    from turnlog.services.cli.views.settings_view import print_settings

    print_settings(list_effective_settings(os.environ, data_dir), output)


def provision_streams() -> None:
    """Create the streams of NATS, and change those of an earlier release.

    It takes TURNLOG_NATS_URL, with the login `provision`, and TURNLOG_REPLICAS.
    """
    from turnlog.services.cli.actions.stream_provision import provision_configured_streams

    names = run_async(provision_configured_streams(os.environ))
    typer.echo(f"ready: {', '.join(names)}")


def rebuild_read_models(*, target: LogTarget) -> None:
    """Rebuild the read models from the log; readers see the old ones until it is done."""
    from turnlog.services.cli.actions.read_model_rebuild import rebuild_read_models

    run_async(rebuild_read_models(target, os.environ))


def list_quarantine(*, target: ReadTarget, output: OutputOption = "table") -> None:
    """List the sessions whose read models an event stopped, with the reason."""
    from turnlog.client.operations import build_read
    from turnlog.services.api.service_payloads import StoppedSessionList
    from turnlog.services.cli.actions.quarantine_actions import render_stopped_sessions

    show_answer(
        target,
        build_read(api_paths.QUARANTINE, StoppedSessionList),
        render_stopped_sessions,
        output,
        with_read_models=True,
    )


def show_quarantine(
    session: SessionArgument, *, target: ReadTarget, output: OutputOption = "table"
) -> None:
    """Show the event that stopped a session's read models, and the later ones that wait."""
    from turnlog.client.operations import build_read
    from turnlog.services.api.service_payloads import QuarantineView
    from turnlog.services.cli.actions.quarantine_actions import render_quarantine

    show_answer(
        target,
        build_read(format_path(api_paths.QUARANTINED_SESSION, session=session), QuarantineView),
        render_quarantine,
        output,
        with_read_models=True,
    )


def release_quarantine(
    session: SessionArgument, *, target: ServiceTarget, output: OutputOption = "table"
) -> None:
    """Fold a stopped session's events again, after a fix; stays stopped if one fails again."""
    from turnlog.services.cli.actions.quarantine_actions import send_release

    run_async(send_release(target, session, output))
