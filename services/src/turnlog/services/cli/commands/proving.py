# ruff: noqa: PLC0415 - a command imports its work when it is called, so that help stays quick

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turnlog.services.cli.commands.late import run_with_reader
from turnlog.services.cli.options import ReadTarget, OutputOption

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
    from turnlog.services.cli.bundles import verify_bundle
    from turnlog.services.cli.checkpoints import load_signed_checkpoint
    from turnlog.services.cli.failures import ExitCode
    from turnlog.services.cli.verifying import print_verification

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
        else run_with_reader(target, lambda reader: print_verification(reader, session, noted, output))
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
    from turnlog.services.cli.checkpoints import create_checkpoint_file
    from turnlog.services.runtime.signing import KEY_FILE

    key_file = key or target.data_dir / KEY_FILE
    run_with_reader(target, lambda reader: create_checkpoint_file(reader, file, key_file, output))
