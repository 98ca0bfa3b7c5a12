"""Commands of the audit: explain, compare, verify, sign, export, and read withheld texts."""

# ruff: noqa: PLC0415 - a command imports its work when it is called, so that help stays quick

from __future__ import annotations

from typing import Annotated

import typer

from turnlog.services.cli.commands.late import run_with_reader, run_async
from turnlog.services.cli.options import ReadTarget, OutputOption, SessionArgument, LogTarget


def explain_turn(
    session: SessionArgument,
    which: Annotated[
        str,
        typer.Argument(metavar="TURN|CALL", help="A turn, 3, or one of its calls, 3.1."),
    ],
    *,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Say why a turn was answered as it was: each layer of its prompt, and what put it there."""
    from turnlog.services.cli.explaining import print_explanation

    run_with_reader(target, lambda reader: print_explanation(reader, session, which, output))


def compare_calls(
    session: SessionArgument,
    before: Annotated[str, typer.Argument(metavar="A", help="A call: 3.1 is turn 3, call 1.")],
    after: Annotated[str, typer.Argument(metavar="B", help="The call it is compared with.")],
    *,
    other: Annotated[
        str | None,
        typer.Option("--other", metavar="SESSION", help="Where B is a call of another session."),
    ] = None,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Say what differs between two calls: each part that came, went or changed, and what did it."""
    from turnlog.services.cli.explaining import print_diff

    run_with_reader(target, lambda reader: print_diff(reader, session, (before, after), other, output))


def show_withheld_text(
    session: SessionArgument,
    turn: Annotated[int, typer.Argument(metavar="TURN", min=1, help="The turn, counted from 1.")],
    *,
    nats: Annotated[
        str | None,
        typer.Option(
            metavar="URL", envvar="TURNLOG_NATS_URL", help="The log itself, where it is elsewhere."
        ),
    ] = None,
    target: LogTarget,
    output: OutputOption = "table",
) -> None:
    """Show an auditor the text that a rule withheld; read from the log, never over HTTP.

    It is for whoever holds the data directory, or a NATS user that may read every session. No
    page, no route and no other command shows such a text.
    """
    from turnlog.services.cli.auditing import print_withheld_text

    run_async(print_withheld_text(target, nats, session, turn, output))
