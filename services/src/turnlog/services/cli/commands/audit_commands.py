"""Commands of the audit: explain, compare, verify, sign, export, and read withheld texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from turnlog.services.cli.commands.command_runner import run_async, run_with_reader
from turnlog.services.cli.options import LogTarget, OutputOption, ReadTarget, SessionArgument


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
    from turnlog.services.cli.actions.query_actions import print_explanation

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
    from turnlog.services.cli.actions.query_actions import print_diff

    run_with_reader(
        target, lambda reader: print_diff(reader, session, (before, after), other, output)
    )


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
    from turnlog.services.cli.actions.withheld_texts import print_withheld_text

    run_async(print_withheld_text(target, nats, session, turn, output))


CheckpointOption = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="Hold the log against a checkpoint: a cut end, a log rolled back or rewritten shows.",
    ),
]

SignerOption = Annotated[
    str | None,
    typer.Option("--signer", metavar="KEY", help="The public key the checkpoint must bear."),
]


def verify_record(
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="One session; without it all.")
    ] = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="All sessions and the library; the same as naming none.")
    ] = False,
    bundle: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR|FILE.zip", exists=True, help="A bundle that was handed over, by itself."
        ),
    ] = None,
    witness: CheckpointOption = None,
    signer: SignerOption = None,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Check that the record is unaltered and whole, and have every prompt again in two ways.

    Where something is wrong the exit code is 5 and the first bad event is named. What this version
    cannot assemble again is told apart from what fails. A bundle is checked by the verifier that
    bundles carry: the one of this release, never the one that was handed over with it.
    """
    from turnlog.services.cli.actions.checkpoint_files import load_signed_checkpoint
    from turnlog.services.cli.actions.verification import print_verification, verify_bundle
    from turnlog.services.cli.error_display import ExitCode

    if session and everything:
        raise typer.BadParameter("name a session, or ask for all", param_hint="--all")
    if bundle and (session or everything or witness or output == "json"):
        alone = "a bundle is checked whole, by what is in it, and told line by line"
        raise typer.BadParameter(alone, param_hint="--bundle")
    if signer and not (witness or bundle):
        raise typer.BadParameter("it goes with --checkpoint or --bundle", param_hint="--signer")
    noted = load_signed_checkpoint(witness, signer) if witness else None
    sound = (
        verify_bundle(bundle, signer)
        if bundle
        else run_with_reader(
            target, lambda reader: print_verification(reader, session, noted, output)
        )
    )
    if not sound:
        raise typer.Exit(ExitCode.VERIFICATION_FAILED)


def create_checkpoint(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to keep it; not there yet.")],
    *,
    key: Annotated[
        Path | None,
        typer.Option(
            "--key",
            metavar="FILE",
            help="The key to sign with, PEM; made in the data directory when none is named.",
        ),
    ] = None,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Note where every session ends, sign it, and keep it for `turnlog verify --checkpoint`.

    Keep it where nobody who may write to the log can write, and the public key that is shown too.
    """
    from turnlog.services.auditing.checkpoint_signatures import KEY_FILE
    from turnlog.services.cli.actions.checkpoint_files import create_checkpoint_file

    key_file = key or target.data_dir / KEY_FILE
    run_with_reader(target, lambda reader: create_checkpoint_file(reader, file, key_file, output))


def export_sessions(
    sessions: Annotated[list[str], typer.Argument(metavar="SESSION...", help="The sessions.")],
    *,
    bundle: Annotated[
        Path | None,
        typer.Option(metavar="DIR|FILE.zip", help="As a bundle that a stranger can check."),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", exists=True, dir_okay=False, help="A signed checkpoint to put with it."
        ),
    ] = None,
    format: Annotated[  # noqa: A002 - the name of the option
        Literal["ndjson", "parquet", "chat"],
        typer.Option(help="Without a bundle: stored lines, a table, or talk in Markdown."),
    ] = "ndjson",
    to: Annotated[
        Path | None,
        typer.Option(metavar="FILE|DIR", help="Where to; a folder for more than one session."),
    ] = None,
    target: ReadTarget,
) -> None:
    """Take sessions out, as a bundle that a stranger can check, as lines, as a table, as talk.

    A bundle holds events as they are stored, the texts they name, and one file of Python that
    checks it all with nothing installed: `python3 -I verify.py`. What a rule withheld was never in
    an event; a reply that was redacted later stands where it was said, and how many is told.
    """
    from turnlog.services.cli.actions.session_export import export_bundle, export_files

    if bundle is None:
        if checkpoint is not None:
            raise typer.BadParameter("it goes into a bundle", param_hint="--checkpoint")
        run_with_reader(target, lambda reader: export_files(reader, sessions, format, to))
    else:
        run_with_reader(target, lambda reader: export_bundle(reader, sessions, bundle, checkpoint))


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
    from turnlog.services.api.what_if_payloads import WhatIfRequest
    from turnlog.services.cli.what_if.what_if_comparison import print_what_if, read_blueprint_folder

    form = WhatIfRequest(
        sessions=sessions or None,
        blueprint=read_blueprint_folder(blueprint) if blueprint else None,
        budget=budget,
        model=model,
    )
    run_with_reader(
        target,
        lambda reader: print_what_if(reader, form, output, html),
        with_read_models=not sessions,
    )
