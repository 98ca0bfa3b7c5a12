"""Commands that administer an installation: doctor, settings, rebuild of the read models."""

# ruff: noqa: PLC0415 - a command imports its work when it is called, so that help stays quick

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from turnlog.services.cli.commands.late import reading, running
from turnlog.services.cli.options import Asked, Output, Served


def doctor(*, served: Served, output: Output = "table") -> None:
    """Check that this machine has what a service needs."""
    from turnlog.services.cli.doctor.round import examine, show
    from turnlog.services.cli.failures import Exit

    findings = running(examine(served, os.environ))
    if not show(findings, output):
        raise typer.Exit(Exit.ERROR)


def config_show(*, output: Output = "table") -> None:
    """Show every setting in force and where it comes from; secrets are masked."""
    from turnlog.services.cli.environment import in_force
    from turnlog.services.cli.screens.settings import show

    show(in_force(os.environ), output)


def blueprint_check(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER...", help="Folders of blueprints.")
    ],
    *,
    output: Output = "table",
) -> None:
    """Name everything that is wrong with a blueprint on disk, its cartridges included.

    Each thing with its line and the way out; exit code 1 where there is any.
    """
    from turnlog.services.cli.checking import check
    from turnlog.services.cli.failures import Exit

    if not check(folders, output):
        raise typer.Exit(Exit.ERROR)


def blueprint_new(
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
    from turnlog.services.cli.beginning import begin

    begin(name, pattern, folder)


def blueprint_list(*, asked: Asked, output: Output = "table") -> None:
    """List the blueprints a session can be opened by."""
    from turnlog.services.cli.show import show_blueprints

    reading(asked, lambda reader: show_blueprints(reader, output))
