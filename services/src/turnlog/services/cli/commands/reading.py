"""Commands that read what the log holds."""

# ruff: noqa: PLC0415 - a command imports its work when it is called, so that help stays quick

from __future__ import annotations

from typing import Annotated

import typer

from turnlog.services.cli.commands.late import reading
from turnlog.services.cli.options import (
    DEFAULT,
    HERE,
    Asked,
    At,
    DataDir,
    Output,
    Session,
    Tenant,
    Url,
)


def sessions(  # noqa: PLR0913 - one for each option
    *,
    query: Annotated[
        str | None,
        typer.Option(
            "-q", "--query", metavar="TEXT", help="Stands in the id or in the first turn."
        ),
    ] = None,
    blueprint: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only those of this blueprint.")
    ] = None,
    redacted: Annotated[
        bool | None, typer.Option("--redacted", help="Only those with a reply withheld.")
    ] = None,
    origin: Annotated[
        str | None, typer.Option(metavar="SESSION", help="Only those forked from this one.")
    ] = None,
    digest: Annotated[
        str | None,
        typer.Option("--digest", metavar="DIGEST", help="Only those pinned to this text."),
    ] = None,
    still_open: Annotated[
        bool | None, typer.Option("--open", help="Only those that are not closed.")
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, max=500, help="How many at the most.")
    ] = 50,
    before: Annotated[
        int | None, typer.Option(metavar="PLACE", help="The page that an earlier one named.")
    ] = None,
    url: Url = None,
    data_dir: DataDir = HERE,
    tenant: Tenant = DEFAULT,
    output: Output = "table",
) -> None:
    """List sessions, newest first."""
    from turnlog.services.cli.show import show_sessions

    wanted = {
        "q": query,
        "blueprint": blueprint,
        "redacted": redacted,
        "digest": digest,
        "open": still_open,
        "origin": origin,
        "limit": limit,
        "before": before,
    }
    asked = Asked(url, data_dir, tenant)
    reading(asked, lambda reader: show_sessions(reader, wanted, output), rows=True)


def show(
    session: Session,
    at: At = None,
    url: Url = None,
    data_dir: DataDir = HERE,
    tenant: Tenant = DEFAULT,
    output: Output = "table",
) -> None:
    """Show one session: what it is, its turns, its calls, its forks; now or at any sequence."""
    from turnlog.services.cli.show import show_session

    asked = Asked(url, data_dir, tenant)
    reading(asked, lambda reader: show_session(reader, session, at, output), rows=True)


def history(
    session: Session,
    at: At = None,
    url: Url = None,
    data_dir: DataDir = HERE,
    tenant: Tenant = DEFAULT,
    output: Output = "table",
) -> None:
    """Show the conversation, turn by turn."""
    from turnlog.services.cli.show import show_history

    asked = Asked(url, data_dir, tenant)
    reading(asked, lambda reader: show_history(reader, session, at, output))


def window(  # noqa: PLR0913, PLR0917 - each is an option of the command
    session: Session,
    call: Annotated[
        str | None, typer.Option(metavar="KIND", help="The kind of call; else the profile's own.")
    ] = None,
    at: At = None,
    clock: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="What the clock says; else what it said then, or now."),
    ] = None,
    text: Annotated[
        str | None, typer.Option("--text", metavar="WORDS", help="Try what is not said yet.")
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=JSON", help="An input of the turn that is tried."),
    ] = None,
    budget: Annotated[
        int | None, typer.Option(metavar="TOKENS", min=1, help="Try another budget.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Try another model.")
    ] = None,
    url: Url = None,
    data_dir: DataDir = HERE,
    tenant: Tenant = DEFAULT,
    output: Output = "table",
) -> None:
    """Show what the next call would see, with its tokens by component and what it would cost.

    With --at it is what a call would have seen then, by the clock and the library of that moment.
    With --text it is the call for a turn that nobody submitted; nothing is written, nobody asked.
    """
    asked = Asked(url, data_dir, tenant)
    if text is None and not given and budget is None and model is None:
        from turnlog.services.cli.show import show_window

        reading(asked, lambda reader: show_window(reader, session, call, at, clock, output))
        return
    from turnlog.services.cli.trying import show_tried, trial

    form = trial(at, clock, text, given or [], call, budget, model)
    reading(asked, lambda reader: show_tried(reader, session, form, output))


def prompt(
    session: Session,
    call: Annotated[str, typer.Argument(metavar="CALL", help="The call: 3.1 is turn 3, call 1.")],
    url: Url = None,
    data_dir: DataDir = HERE,
    tenant: Tenant = DEFAULT,
    output: Output = "table",
) -> None:
    """Show the exact prompt of a call, every part with where it came from."""
    from turnlog.services.cli.show import show_prompt

    asked = Asked(url, data_dir, tenant)
    reading(asked, lambda reader: show_prompt(reader, session, call, output))
