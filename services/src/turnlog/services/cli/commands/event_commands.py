"""Commands that follow a session's events or replay it."""

from __future__ import annotations

from typing import Annotated

import typer

from turnlog.services.cli.command_runner import run_with_service
from turnlog.services.cli.options import (
    LookTarget,
    OutputOption,
    PhaseOption,
    SessionArgument,
    StoredOption,
)


def tail_events(
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="One session; all by default.")
    ] = None,
    *,
    types: Annotated[
        str | None,
        typer.Option(
            "--types", metavar="NAMES", help="Only these event types: turn-submitted,turn-failed."
        ),
    ] = None,
    after: Annotated[
        int,
        typer.Option(
            metavar="SEQUENCE",
            min=0,
            help="Only events after this sequence of the session, or of the stream.",
        ),
    ] = 0,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Whether to wait for new events.")
    ] = True,
    stored: StoredOption = False,
    target: LookTarget,
    output: OutputOption = "table",
) -> None:
    """Print events, one per line: the recorded ones, then new ones as they arrive."""
    from turnlog.services.cli.actions.event_lines import print_events
    from turnlog.services.cli.client.event_reads import EventQuery

    query = EventQuery(session, after, types, stored)
    run_with_service(target, lambda service: print_events(service, query, output, live=follow))


def replay_session(
    session: SessionArgument,
    *,
    speed: Annotated[
        float,
        typer.Option(
            metavar="TIMES", min=0.1, help="Playback speed, as a multiple of the recorded pace."
        ),
    ] = 1.0,
    step: Annotated[bool, typer.Option("--step", help="Wait for Enter before each turn.")] = False,
    prompts: Annotated[
        bool, typer.Option("--prompts", help="Also show the prompt before each reply.")
    ] = False,
    phase: PhaseOption = None,
    target: LookTarget,
) -> None:
    """Play back a session as its user saw it, at the recorded pace."""
    from turnlog.services.cli.terminal_replay import play_session

    run_with_service(
        target,
        lambda service: play_session(service, session, speed, phase, step=step, prompts=prompts),
    )
