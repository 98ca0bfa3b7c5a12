"""The command that signs checkpoints: one, one that continues another, or one at each interval."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from turnlog.services.cli.command_runner import (
    exit_cleanly_on_signals,
    run_async,
    run_with_service,
)
from turnlog.services.cli.options import OutputOption, ReadTarget, ServiceTarget, parse_interval

if TYPE_CHECKING:
    from turnlog.services.cli.console import OutputFormat

KeyOption = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="FILE",
        help="PEM file with the signing key, created if it is missing; by default that of the"
        " data directory. With --url it must be named.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContinuationOptions:
    """The older checkpoint that a new one continues, and what is written of that."""

    older: Annotated[
        Path | None,
        typer.Option(
            "--after",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="An older checkpoint, which the log must continue.",
        ),
    ] = None
    consistency: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --after: also write what shows that it does."),
    ] = None
    verifier: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the Python file that verifies that."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """When checkpoints are signed without end, and where they go."""

    every: Annotated[
        float | None,
        typer.Option(
            "--every",
            metavar="INTERVAL",
            parser=parse_interval,
            help="Sign one at each interval, such as 1h, until the process is ended.",
        ),
    ] = None
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="DIR|URL",
            help="With --every: the folder, or the http(s) address below which files are put.",
        ),
    ] = None
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            metavar="DIR",
            help="With an address: the folder with the last checkpoint and what is not sent yet.",
        ),
    ] = None
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="With an address: the file with its bearer token.",
        ),
    ] = None

    def check_options(self, file: Path | None, continued: ContinuationOptions) -> None:
        """Raise an error for options that do not go together."""
        if self.every is None:
            given = {"--to": self.to, "--state": self.state, "--token-file": self.token_file}
            for option in (name for name, value in given.items() if value):
                raise typer.BadParameter("it goes with --every", param_hint=option)
            if file is None:
                raise typer.BadParameter("name a file, or --every and --to", param_hint="FILE")
            return
        if self.to is None:
            raise typer.BadParameter("it goes with --to", param_hint="--every")
        if file is not None or continued.older is not None:
            alone = "files are named by time there, and each continues the last one"
            raise typer.BadParameter(alone, param_hint="--every")
        if self.is_address != (self.state is not None):
            reason = "an address needs --state, and a folder has none"
            raise typer.BadParameter(reason, param_hint="--to")
        if self.token_file is not None and not self.is_address:
            raise typer.BadParameter("a folder needs no token", param_hint="--token-file")

    @property
    def is_address(self) -> bool:
        """Whether checkpoints go to an address."""
        return self.to is not None and "://" in self.to


def create_checkpoint(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="The file to write; must not exist yet."),
    ] = None,
    *,
    key: KeyOption = None,
    continued: ContinuationOptions,
    schedule: ScheduleOptions,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Write a signed record of every session's last event, for `turnlog verify --checkpoint`.

    Store it, and the public key that is printed, where nobody with write access to the log can
    change them. With `--after`, nothing is signed unless the log continues the older checkpoint,
    and `turnlog verify --between` shows that later from the two and the file `--consistency`.
    With `--every` and `--to` it signs one at each interval, each after the last one, until the
    process is ended: run it on another machine than the log's. If the log does not continue the
    last one, the exit code is 5.
    """
    from turnlog.services.cli.checkpoints.checkpoint_files import (
        CheckpointFiles,
        choose_key_file,
        create_checkpoint_file,
    )

    schedule.check_options(file, continued)
    if (continued.consistency or continued.verifier) and continued.older is None:
        raise typer.BadParameter("it goes with --after", param_hint="--consistency, --verifier")
    key_file = choose_key_file(target, key)
    if file is None:
        _run_schedule(schedule, ServiceTarget(target.url, target.data_dir), key_file, output)
        return
    files = CheckpointFiles(
        checkpoint=file,
        older=continued.older,
        consistency=continued.consistency,
        verifier=continued.verifier,
    )
    run_with_service(
        target, lambda service: create_checkpoint_file(service, files, key_file, output)
    )


def _run_schedule(
    options: ScheduleOptions, target: ServiceTarget, key_file: Path, output: OutputFormat
) -> None:
    exit_cleanly_on_signals()
    from turnlog.services.cli.checkpoints.checkpoint_schedule import (
        SchedulePlace,
        create_schedule,
        run_until_signal,
    )

    place = SchedulePlace(to=options.to or "", state=options.state, token_file=options.token_file)
    schedule = create_schedule(
        target=target, key_file=key_file, every=options.every or 0, place=place, output=output
    )
    run_async(run_until_signal(schedule))
