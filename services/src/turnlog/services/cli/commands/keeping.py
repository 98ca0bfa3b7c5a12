"""Commands that administer an installation: doctor, settings, rebuild of the read models."""

# ruff: noqa: PLC0415 - a command imports its work when it is called, so that help stays quick

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from turnlog.services.cli.commands.late import run_with_reader, run_async
from turnlog.services.cli.options import ReadTarget, OutputOption, ServiceTarget


def run_doctor(*, target: ServiceTarget, output: OutputOption = "table") -> None:
    """Check that this machine has what a service needs."""
    from turnlog.services.cli.doctor.round import run_checks, print_findings
    from turnlog.services.cli.failures import ExitCode

    findings = run_async(run_checks(target, os.environ))
    if not print_findings(findings, output):
        raise typer.Exit(ExitCode.ERROR)


def show_config(*, output: OutputOption = "table") -> None:
    """Show every setting in force and where it comes from; secrets are masked."""
    from turnlog.services.cli.environment import list_effective_settings
    from turnlog.services.cli.screens.settings import print_settings

    print_settings(list_effective_settings(os.environ), output)


def check_blueprint(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER...", help="Folders of blueprints.")
    ],
    *,
    output: OutputOption = "table",
) -> None:
    """Name everything that is wrong with a blueprint on disk, its cartridges included.

    Each thing with its line and the way out; exit code 1 where there is any.
    """
    from turnlog.services.cli.checking import check_blueprint_folders
    from turnlog.services.cli.failures import ExitCode

    if not check_blueprint_folders(folders, output):
        raise typer.Exit(ExitCode.ERROR)


def create_blueprint(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is to be called.")],
    *,
    pattern: Annotated[
        Literal["assistant", "trickster", "araquem"],
        typer.Option("--from", help="The shipped one to begin with."),
    ] = "assistant",
    folder: Annotated[
        Path, typer.Option("--in", metavar="DIR", help="Where its folder is made.")
    ] = Path(),
) -> None:
    """Begin a blueprint of your own: a folder that can be used as it is."""
    from turnlog.services.cli.beginning import create_blueprint_folder

    create_blueprint_folder(name, pattern, folder)


def list_blueprints(*, target: ReadTarget, output: OutputOption = "table") -> None:
    """List the blueprints a session can be opened by."""
    from turnlog.services.cli.show import print_blueprints

    run_with_reader(target, lambda reader: print_blueprints(reader, output))
