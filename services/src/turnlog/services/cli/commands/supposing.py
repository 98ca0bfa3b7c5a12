"""Commands on blueprints: check, create, list, and move a session to a new version."""

# ruff: noqa: PLC0415 - a command imports its work when it is called, so that help stays quick

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turnlog.services.cli.commands.late import reading, running
from turnlog.services.cli.options import Asked, Output, Served, Session


def what_if(
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
    asked: Asked,
    output: Output = "table",
) -> None:
    """Say what recorded calls would have been told under another blueprint, budget or model.

    No model is called and nothing is written. Exact for context, not for behaviour.
    """
    from turnlog.services.cli.supposing.asking import ask
    from turnlog.services.cli.supposing.folder import brought
    from turnlog.services.gateway.payloads.what_if import WhatIfForm

    form = WhatIfForm(
        sessions=sessions or None,
        blueprint=brought(blueprint) if blueprint else None,
        budget=budget,
        model=model,
    )
    reading(asked, lambda reader: ask(reader, form, output, html), rows=not sessions)


def blueprint_pinned(
    blueprint: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Of this blueprint only.")
    ] = None,
    *,
    asked: Asked,
    output: Output = "table",
) -> None:
    """Say what open sessions are pinned to, how many are of each, and what the files say by now."""
    from turnlog.services.cli.versions import show_pins

    reading(asked, lambda reader: show_pins(reader, blueprint, output), rows=True)


def blueprint_move(
    session: Session,
    *,
    to: Annotated[
        str | None, typer.Option(metavar="DIGEST", help="Only if the files are of this digest.")
    ] = None,
    served: Served,
    output: Output = "table",
) -> None:
    """Let a session go on by what the files of its blueprint say now, from its next call on.

    Between turns, or where a phase has just been entered. What was said, and every prompt so
    far, stays what it is.
    """
    from turnlog.services.cli.versions import move

    running(move(served, session, to, output))
