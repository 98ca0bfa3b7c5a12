"""Commands that list sessions and show one: its history, window, growth and prompts."""

# ruff: noqa: PLC0415 - a command imports its work when it is called, so that help stays quick

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import typer

from turnlog.services.cli.commands.late import reading
from turnlog.services.cli.options import Asked, At, InPhase, Output, Session


@dataclass(frozen=True, slots=True)
class Listed:
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
class Tried:
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


def sessions(*, listed: Listed, asked: Asked, output: Output = "table") -> None:
    """List sessions, newest first."""
    from turnlog.services.cli.show import show_sessions

    reading(asked, lambda reader: show_sessions(reader, asdict(listed), output), rows=True)


def show(session: Session, *, at: At = None, asked: Asked, output: Output = "table") -> None:
    """Show one session: what it is, its turns, its calls, its forks; now or at any sequence."""
    from turnlog.services.cli.show import show_session

    reading(asked, lambda reader: show_session(reader, session, at, output), rows=True)


def history(
    session: Session,
    *,
    at: At = None,
    phase: InPhase = None,
    asked: Asked,
    output: Output = "table",
) -> None:
    """Show the conversation, turn by turn."""
    from turnlog.services.cli.show import show_history

    reading(asked, lambda reader: show_history(reader, session, at, phase, output))


def window(
    session: Session,
    *,
    call: Annotated[
        str | None, typer.Option(metavar="KIND", help="The kind of call; else the profile's own.")
    ] = None,
    at: At = None,
    clock: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="What the clock says; else what it said then, or now."),
    ] = None,
    tried: Tried,
    asked: Asked,
    output: Output = "table",
) -> None:
    """Show what the next call would see, with its tokens by component and what it would cost.

    With --at it is what a call would have seen then, by the clock and the library of that moment.
    With --text it is the call for a turn that nobody submitted; nothing is written, nobody asked.
    """
    if tried == Tried():
        from turnlog.services.cli.show import show_window

        reading(asked, lambda reader: show_window(reader, session, call, at, clock, output))
        return
    from turnlog.services.cli.trying import show_tried, trial

    form = trial(at, clock, call, **asdict(tried))
    reading(asked, lambda reader: show_tried(reader, session, form, output))


def growth(
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
    asked: Asked,
    output: Output = "table",
) -> None:
    """Show how context grows: tokens by component and call, what was cut, and what was saved."""
    from turnlog.services.cli.show import show_growth

    query = {"session": session, "group_by": by, "since": since}
    reading(asked, lambda reader: show_growth(reader, query, output), rows=True)


def prompt(
    session: Session,
    call: Annotated[str, typer.Argument(metavar="CALL", help="The call: 3.1 is turn 3, call 1.")],
    *,
    asked: Asked,
    output: Output = "table",
) -> None:
    """Show the exact prompt of a call, every part with where it came from."""
    from turnlog.services.cli.show import show_prompt

    reading(asked, lambda reader: show_prompt(reader, session, call, output))
