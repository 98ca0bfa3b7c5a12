"""Commands on blueprints: check, create, list, show, and move a session to a new version."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from turnlog.contract import api_paths
from turnlog.services.cli.command_runner import run_async, run_command, show_answer
from turnlog.services.cli.options import OutputOption, ReadTarget, ServiceTarget
from turnlog.services.cli.session_options import SessionFilterOptions


def show_pins(
    blueprint: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Only this blueprint.")
    ] = None,
    *,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Show the blueprint versions of open sessions, their number, and the files' version."""
    from turnlog.client.operations import build_read
    from turnlog.services.api.service_payloads import PinnedTextList
    from turnlog.services.cli.blueprints.blueprint_view import render_pins

    show_answer(
        target,
        build_read(api_paths.PINS, PinnedTextList, {"blueprint": blueprint}),
        render_pins,
        output,
        with_read_models=True,
    )


def move_blueprint(
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="One session, or options that select.")
    ] = None,
    *,
    filters: SessionFilterOptions,
    to: Annotated[
        str | None, typer.Option(metavar="DIGEST", help="Only if the files have this digest.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what the move would change.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Move the selected sessions without a question.")
    ] = False,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Move a session to the current files of its blueprint, from its next call on.

    Possible between turns, or when a phase has just been entered. Earlier turns and prompts do
    not change. Options select many open sessions: the plan is shown first, and carried out when
    it is confirmed. The exit code is 1 if a selected session cannot be moved.
    """
    from turnlog.services.api.published_errors.error_code import ExitCode
    from turnlog.services.cli.blueprints import session_moves
    from turnlog.services.cli.blueprints.move_view import render_move, render_move_preview

    if (session is None) == filters.is_empty:
        raise typer.BadParameter("name a session, or select some by options", param_hint="SESSION")
    if session is not None and dry_run:
        read = ReadTarget(url=target.url, data_dir=target.data_dir)
        operation = session_moves.build_move_preview(session)
        show_answer(read, operation, render_move_preview, output)
    elif session is not None:
        run_command(target, session_moves.build_move(session, to), render_move, output)
    else:
        if output == "json" and not (dry_run or yes):
            raise typer.BadParameter("add --yes or --dry-run", param_hint="--output")
        move = session_moves.SelectedMove(
            filters=filters, digest=to, dry_run=dry_run, is_confirmed=yes
        )
        if not run_async(session_moves.move_selected_sessions(target, move, output)):
            raise typer.Exit(ExitCode.ERROR)


def check_blueprint(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Blueprint folders.")],
    *,
    tools: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", envvar="TURNLOG_TOOLS", help="The tools file, which is checked as well."
        ),
    ] = None,
    dialects: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="TURNLOG_MODEL_DIALECTS",
            help="The file of dialects, which is checked as well.",
        ),
    ] = None,
    output: OutputOption = "table",
) -> None:
    """List every error of a blueprint on disk, including its cartridges.

    Each error is shown with its line and a fix; the exit code is 1 if there is any. Warnings (`!`)
    name what some providers refuse; the blueprint can be used.
    """
    from turnlog.services.api.published_errors.error_code import ExitCode
    from turnlog.services.cli.blueprints.local_blueprints import check_blueprint_folders

    if not check_blueprint_folders(folders, tools, dialects, output):
        raise typer.Exit(ExitCode.ERROR)


def create_blueprint(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new blueprint.")],
    *,
    pattern: Annotated[
        Literal["assistant", "agent", "trickster", "araquem", "game-master", "uderia"],
        typer.Option("--from", help="The shipped blueprint to copy."),
    ] = "assistant",
    folder: Annotated[
        Path, typer.Option("--in", metavar="DIR", help="The folder to create it in.")
    ] = Path(),
) -> None:
    """Create a blueprint folder from a shipped one, ready to use."""
    from turnlog.services.cli.blueprints.local_blueprints import create_blueprint_folder

    create_blueprint_folder(name, pattern, folder)


def list_blueprints(
    *,
    target: ReadTarget,
    blueprints: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="List the folders here and not those of a service."),
    ] = None,
    output: OutputOption = "table",
) -> None:
    """List the blueprints that a session can be opened with.

    A running service says which; without one they are those that `turnlog up` would have.
    """
    from turnlog.services.cli.blueprints.local_blueprints import print_blueprint_list

    run_async(print_blueprint_list(target, blueprints or [], os.environ, output))


def show_blueprint(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a blueprint.")],
    *,
    target: ReadTarget,
    blueprints: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="Look in the folders here and not in those of a service."),
    ] = None,
    output: OutputOption = "table",
) -> None:
    """Show a blueprint with the attributes and inputs that it accepts.

    It is that of a running service; without one, that which `turnlog up` would have.
    """
    from turnlog.services.cli.blueprints.local_blueprints import print_blueprint

    run_async(
        print_blueprint(
            name=name, target=target, folders=blueprints or [], environ=os.environ, output=output
        )
    )
