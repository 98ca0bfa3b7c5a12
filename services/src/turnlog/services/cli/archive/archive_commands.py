"""Commands on the archive of closed sessions."""

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
        help="The NATS server with the log, if it is not local; with the login `turnlog`.",
    ),
]


def archive_sessions(
    *,
    closed_before: Annotated[
        str,
        typer.Option(
            "--closed-before",
            metavar="AGE",
            help="Move closed sessions whose last event is older, such as 90d.",
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be moved, and move nothing.")
    ] = False,
    nats: NatsOption = None,
    target: LogTarget,
    output: OutputOption = "table",
) -> None:
    """Move closed sessions out of NATS into files, where they are read like before.

    The service must not run. The stream of sessions is made anew from a copy of itself, so this
    needs as much room as it takes. An interrupted run is finished by `turnlog archive finish`.
    """
    from turnlog.services.cli.archive.archive_actions import MoveRequest, print_move

    request = MoveRequest(age=closed_before, is_dry_run=dry_run)
    run_async(print_move(target, nats, request, output))


def finish_archive_run(*, nats: NatsOption = None, target: LogTarget) -> None:
    """Finish a run of `turnlog archive sessions` that was interrupted."""
    from turnlog.services.cli.archive.archive_actions import print_finished_move

    run_async(print_finished_move(target, nats))


def show_archive(
    *, data_dir: DataDirOption = DEFAULT_DATA_DIR, output: OutputOption = "table"
) -> None:
    """Show how many sessions and events were moved into the archive, and where it is."""
    from turnlog.services.cli.archive.archive_actions import print_archive

    print_archive(data_dir, output)
