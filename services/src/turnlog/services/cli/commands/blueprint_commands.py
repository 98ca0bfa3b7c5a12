"""Commands on blueprints: check, create, list, and move a session to a new version."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from turnlog.services.cli.commands.command_runner import run_async, run_with_reader
from turnlog.services.cli.options import OutputOption, ReadTarget, ServiceTarget, SessionArgument


def show_pins(
    blueprint: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Of this blueprint only.")
    ] = None,
    *,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Say what open sessions are pinned to, how many are of each, and what the files say by now."""
    from turnlog.services.cli.actions.session_actions import print_pins

    run_with_reader(
        target, lambda reader: print_pins(reader, blueprint, output), with_read_models=True
    )


def move_blueprint(
    session: SessionArgument,
    *,
    to: Annotated[
        str | None, typer.Option(metavar="DIGEST", help="Only if the files are of this digest.")
    ] = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Let a session go on by what the files of its blueprint say now, from its next call on.

    Between turns, or where a phase has just been entered. What was said, and every prompt so
    far, stays what it is.
    """
    from turnlog.services.cli.actions.session_actions import send_blueprint_move

    run_async(send_blueprint_move(target, session, to, output))


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
    from turnlog.services.cli.actions.local_blueprints import check_blueprint_folders
    from turnlog.services.cli.error_display import ExitCode

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
    from turnlog.services.cli.actions.local_blueprints import create_blueprint_folder

    create_blueprint_folder(name, pattern, folder)


def list_blueprints(*, target: ReadTarget, output: OutputOption = "table") -> None:
    """List the blueprints a session can be opened by."""
    from turnlog.services.cli.actions.query_actions import print_blueprints

    run_with_reader(target, lambda reader: print_blueprints(reader, output))
