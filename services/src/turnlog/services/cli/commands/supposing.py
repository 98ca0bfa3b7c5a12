"""Commands on blueprints: check, create, list, and move a session to a new version."""

# ruff: noqa: PLC0415 - a command imports its work when it is called, so that help stays quick

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turnlog.services.cli.commands.late import run_with_reader, run_async
from turnlog.services.cli.options import ReadTarget, OutputOption, ServiceTarget, SessionArgument


def compare_what_if(
    sessions: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SESSION...]", help="The sessions; else all, or the blueprint's."),
    ] = None,
    *,
    blueprint: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Another version, by its folder.")
    ] = None,
    budget: Annotated[
        int | None, typer.Option(metavar="TOKENS", min=1, help="Another budget for every call.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="MODEL", help="Another model, as litellm names it."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report as one page too.")
    ] = None,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Say what recorded calls would have been told under another blueprint, budget or model.

    No model is called and nothing is written. Exact for context, not for behaviour.
    """
    from turnlog.services.cli.supposing.asking import print_what_if
    from turnlog.services.cli.supposing.folder import read_blueprint_folder
    from turnlog.services.gateway.payloads.what_if import WhatIfRequest

    form = WhatIfRequest(
        sessions=sessions or None,
        blueprint=read_blueprint_folder(blueprint) if blueprint else None,
        budget=budget,
        model=model,
    )
    run_with_reader(target, lambda reader: print_what_if(reader, form, output, html), with_read_models=not sessions)


def show_pins(
    blueprint: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Of this blueprint only.")
    ] = None,
    *,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Say what open sessions are pinned to, how many are of each, and what the files say by now."""
    from turnlog.services.cli.versions import print_pins

    run_with_reader(target, lambda reader: print_pins(reader, blueprint, output), with_read_models=True)


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
    from turnlog.services.cli.versions import send_blueprint_move

    run_async(send_blueprint_move(target, session, to, output))
