"""Commands that list sessions and show one: its history, window, growth and prompts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import typer

from turnlog.services.cli.commands.command_runner import run_with_reader
from turnlog.services.cli.options import (
    AtOption,
    OutputOption,
    PhaseOption,
    ReadTarget,
    SessionArgument,
)


@dataclass(frozen=True, slots=True)
class SessionListOptions:
    """Filters of `turnlog sessions`."""

    q: Annotated[
        str | None,
        typer.Option(
            "-q", "--query", metavar="TEXT", help="Stands in the id or in the first turn."
        ),
    ] = None
    blueprint: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only those of this blueprint.")
    ] = None
    redacted: Annotated[
        bool | None, typer.Option("--redacted", help="Only those with a reply withheld.")
    ] = None
    origin: Annotated[
        str | None, typer.Option(metavar="SESSION", help="Only those forked from this one.")
    ] = None
    digest: Annotated[
        str | None,
        typer.Option("--digest", metavar="DIGEST", help="Only those pinned to this text."),
    ] = None
    open: Annotated[bool | None, typer.Option("--open", help="Only those that are not closed.")] = (
        None
    )
    limit: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, max=500, help="How many at the most.")
    ] = 50
    before: Annotated[
        int | None, typer.Option(metavar="PLACE", help="The page that an earlier one named.")
    ] = None


@dataclass(frozen=True, slots=True)
class PreviewOptions:
    """Options of a window preview; all are None when no preview is asked for."""

    text: Annotated[
        str | None, typer.Option("--text", metavar="WORDS", help="Try what is not said yet.")
    ] = None
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=JSON", help="An input of the turn that is tried."),
    ] = None
    budget: Annotated[
        int | None, typer.Option(metavar="TOKENS", min=1, help="Try another budget.")
    ] = None
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Try another model.")
    ] = None


def list_sessions(
    *, filters: SessionListOptions, target: ReadTarget, output: OutputOption = "table"
) -> None:
    """List sessions, newest first."""
    from turnlog.services.cli.actions.query_actions import print_sessions

    run_with_reader(
        target,
        lambda reader: print_sessions(reader, asdict(filters), output),
        with_read_models=True,
    )


def show_session(
    session: SessionArgument,
    *,
    at: AtOption = None,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Show one session: what it is, its turns, its calls, its forks; now or at any sequence."""
    from turnlog.services.cli.actions.query_actions import print_session

    run_with_reader(
        target, lambda reader: print_session(reader, session, at, output), with_read_models=True
    )


def show_history(
    session: SessionArgument,
    *,
    at: AtOption = None,
    phase: PhaseOption = None,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Show the conversation, turn by turn."""
    from turnlog.services.cli.actions.query_actions import print_history

    run_with_reader(target, lambda reader: print_history(reader, session, at, phase, output))


def show_window(
    session: SessionArgument,
    *,
    call: Annotated[
        str | None, typer.Option(metavar="KIND", help="The kind of call; else the profile's own.")
    ] = None,
    at: AtOption = None,
    clock: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="What the clock says; else what it said then, or now."),
    ] = None,
    preview: PreviewOptions,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Show what the next call would see, with its tokens by component and what it would cost.

    With --at it is what a call would have seen then, by the clock and the library of that moment.
    With --text it is the call for a turn that nobody submitted; nothing is written, nobody asked.
    """
    if preview == PreviewOptions():
        from turnlog.services.cli.actions.query_actions import print_window

        run_with_reader(
            target, lambda reader: print_window(reader, session, call, at, clock, output)
        )
        return
    from turnlog.services.cli.actions.query_actions import build_preview_request, print_preview

    form = build_preview_request(at, clock, call, **asdict(preview))
    run_with_reader(target, lambda reader: print_preview(reader, session, form, output))


def show_growth(
    session: Annotated[
        str | None, typer.Argument(metavar="SESSION", help="The session; without one, all.")
    ] = None,
    *,
    by: Annotated[
        Literal["all", "blueprint", "profile", "kind", "model"],
        typer.Option("--by", help="Put calls together by this."),
    ] = "all",
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only calls made at or after this time.")
    ] = None,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Show how context grows: tokens by component and call, what was cut, and what was saved."""
    from turnlog.services.cli.actions.query_actions import print_growth

    query = {"session": session, "group_by": by, "since": since}
    run_with_reader(
        target, lambda reader: print_growth(reader, query, output), with_read_models=True
    )


def show_prompt(
    session: SessionArgument,
    call: Annotated[str, typer.Argument(metavar="CALL", help="The call: 3.1 is turn 3, call 1.")],
    *,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Show the exact prompt of a call, every part with where it came from."""
    from turnlog.services.cli.actions.query_actions import print_prompt

    run_with_reader(target, lambda reader: print_prompt(reader, session, call, output))
