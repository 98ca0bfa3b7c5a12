"""The options that select sessions, the same for every command that takes many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from turnlog.contract.value_names import SessionOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConditionOptions:
    """Conditions of `SessionFilterOptions` for a command whose `--blueprint` is a folder."""

    q: Annotated[
        str | None,
        typer.Option(
            "-q", "--query", metavar="TEXT", help="Words in the id, the title or the first turn."
        ),
    ] = None
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            "-a",
            "--attribute",
            metavar="NAME=VALUE",
            help="Only sessions with this attribute; may be repeated.",
        ),
    ] = None
    profile: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only sessions with this profile now.")
    ] = None
    phase: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only sessions that are in this phase.")
    ] = None
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="USER", help="Only sessions with a turn of this user."),
    ] = None
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="USER", help="Only sessions of this user.")
    ] = None
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only sessions with an event at or after this time."),
    ] = None
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only sessions opened before this time.")
    ] = None
    label: Annotated[
        str | None,
        typer.Option("--label", metavar="LABEL", help="Only sessions with this label."),
    ] = None
    near: Annotated[
        int | None,
        typer.Option(
            metavar="PERCENT",
            min=0,
            max=1000,
            help="Only sessions whose last prompt took so much of its budget.",
        ),
    ] = None
    failed: Annotated[
        bool | None, typer.Option("--failed", help="Only sessions with a turn that failed.")
    ] = None
    failure: Annotated[
        str | None,
        typer.Option(metavar="CODE", help="Only sessions with a turn that failed with this code."),
    ] = None
    redacted: Annotated[
        bool | None, typer.Option("--redacted", help="Only sessions with a redacted reply.")
    ] = None
    origin: Annotated[
        str | None,
        typer.Option(metavar="SESSION", help="Only forks and children of this session."),
    ] = None
    digest: Annotated[
        str | None,
        typer.Option(
            "--digest",
            metavar="DIGEST",
            help="Only sessions pinned to the text with this digest; see `blueprint pinned`.",
        ),
    ] = None
    open: Annotated[
        bool | None, typer.Option("--open", help="Only sessions that are not closed.")
    ] = None

    @property
    def is_empty(self) -> bool:
        """Whether no condition is given, so that every session is selected."""
        return self == type(self)()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilterOptions(SessionConditionOptions):
    """Options that select sessions, as the query parameters of `GET /v1/sessions` do."""

    blueprint: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only sessions of this blueprint.")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionListOptions(SessionFilterOptions):
    """Options of `turnlog sessions`."""

    limit: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, max=500, help="Maximum number of sessions.")
    ] = 50
    order: Annotated[
        SessionOrder,
        typer.Option(
            help="What comes first: opened or active last, nearest to its budget, dearest, failed."
        ),
    ] = "opened"
    before: Annotated[
        str | None, typer.Option(metavar="PLACE", help="Next page, as named by the previous one.")
    ] = None
