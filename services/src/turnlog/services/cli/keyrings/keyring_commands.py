"""Commands on the keyring."""

from __future__ import annotations

from typing import Annotated

import typer

from turnlog.services.cli.command_runner import run_async
from turnlog.services.cli.options import DEFAULT_DATA_DIR, DataDirOption, LogTarget, OutputOption

NatsOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="TURNLOG_NATS_URL",
        help="The NATS server with the keys, if it is not local.",
    ),
]


def show_keyring(
    *, nats: NatsOption = None, target: LogTarget, output: OutputOption = "table"
) -> None:
    """Show the generations of the keyring, and how many records of keys are under each."""
    from turnlog.services.cli.keyrings.keyring_actions import print_generations

    run_async(print_generations(target, nats, output))


def rotate_keyring(
    *, data_dir: DataDirOption = DEFAULT_DATA_DIR, output: OutputOption = "table"
) -> None:
    """Add a generation to the file of the keyring; new sessions are under it at once.

    Processes read the file again by themselves. Where they have copies of it, copy it to all of
    them: one without the new line waits, and loses nothing.
    """
    from turnlog.services.cli.keyrings.keyring_actions import rotate_keyring_file

    rotate_keyring_file(data_dir, output)


def retire_generation(
    generation: Annotated[
        int,
        typer.Argument(
            metavar="GENERATION", min=1, help="The generation to retire, with all before it."
        ),
    ],
    *,
    keep_line: Annotated[
        bool,
        typer.Option(
            "--keep-line", help="Leave the file as it is, where its copies are managed elsewhere."
        ),
    ] = False,
    nats: NatsOption = None,
    target: LogTarget,
    output: OutputOption = "table",
) -> None:
    """Wrap all keys under the newest generation, and remove the earlier one from the keyring.

    Nobody opens a back-up of KEYS from before afterwards, nor what was erased since. An interrupted
    run is started again, and goes on. Exit code 1 says that some keys could not be wrapped again.
    """
    from turnlog.services.api.published_errors.error_code import ExitCode
    from turnlog.services.cli.keyrings.keyring_actions import RetireRequest, print_retirement

    request = RetireRequest(generation, keeps_line=keep_line)
    if not run_async(print_retirement(target, nats, request, output)):
        raise typer.Exit(ExitCode.ERROR)
