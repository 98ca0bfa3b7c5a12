"""Errors as people and scripts see them: what happened, why, what to do, and an exit code.

Every error that Turnlog raises on purpose is shown here, whether it was raised in this process or
arrived as problem+json over HTTP. Any other exception is a bug and keeps its traceback.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from turnlog.events.errors import (
    Conflict,
    Corrupt,
    LaterRelease,
    Refused,
    TurnlogError,
    Unavailable,
)
from turnlog.services.api.published_errors.error_catalogue import get_error_code
from turnlog.services.api.published_errors.error_code import ExitCode
from turnlog.services.cli.views.text_format import escape_controls
from turnlog.services.cli.views.theme import BAD, GOOD, MUTED

COMMAND_FIXES: Final = {
    "not-stopped": "`turnlog quarantine list` lists those that are",
    "unknown-session": "`turnlog sessions` lists all sessions",
    "unknown-segment": "`turnlog segments list` lists all segments",
    "unknown-collection": "`turnlog knowledge list` lists all collections",
    "unknown-entry": "`turnlog knowledge list COLLECTION` lists its entries",
    "unknown-turn": "`turnlog show SESSION` lists the turns there are",
    "unknown-call": "`turnlog show SESSION` lists the calls there are",
    "unknown-summary": "`turnlog summaries SESSION` lists the active ones",
    "unknown-tool-use": "`turnlog history SESSION` names what came of each tool as CALL ID",
}
"""Fixes that name a command, by error code; they replace the fix that a service sends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayedError:
    """An error with everything that is shown about it."""

    subject: str
    detail: str
    fix: str
    exit_code: ExitCode
    field: str = ""
    """The option, argument or variable that caused the error."""


def describe_error(error: TurnlogError | OSError) -> DisplayedError:
    """Return what to show for an error, with its exit code."""
    match error:
        case OSError():
            place = str(error.filename or "the operating system")
            fix = "`turnlog doctor` looks at what a service needs here"
            return DisplayedError(
                subject=place,
                detail=error.strerror or type(error).__name__,
                fix=fix,
                exit_code=ExitCode.ERROR,
            )
        case Refused():
            return _describe_refusal(error)
        case Conflict(actual=actual):
            now = "it moved on" if actual is None else f"it is at sequence {actual} now"
            return DisplayedError(
                subject=f"session {error.session}",
                detail=now,
                fix="read it again",
                exit_code=ExitCode.CONFLICT,
            )
        case Unavailable(retry_after=seconds):
            fix = f"try again in {seconds:g} s; `turnlog doctor` says what is missing"
            return DisplayedError(
                subject=f"{error.what} is unavailable",
                detail=error.detail,
                fix=fix,
                exit_code=ExitCode.ERROR,
            )
        case LaterRelease():
            fix = "run the release that wrote it, or a later one; its data stays as it is"
            return DisplayedError(
                subject=error.where, detail=error.detail, fix=fix, exit_code=ExitCode.ERROR
            )
        case Corrupt():
            fix = "`turnlog verify` names the first bad event; keep the data as it is"
            return DisplayedError(
                subject=error.where,
                detail=error.detail,
                fix=fix,
                exit_code=ExitCode.VERIFICATION_FAILED,
            )
        case _:
            return DisplayedError(
                subject="error", detail=str(error), fix="", exit_code=ExitCode.ERROR
            )


def _describe_refusal(error: Refused) -> DisplayedError:
    fix = COMMAND_FIXES.get(error.code) or error.fix or ""
    exit_code = get_error_code(error.code).get_exit_code()
    return DisplayedError(
        subject=error.code,
        detail=error.detail,
        fix=fix,
        exit_code=exit_code,
        field=error.field or "",
    )


def print_error(error: DisplayedError, console: Console) -> None:
    """Print an error."""
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right")
    table.add_column(overflow="fold")
    what = Text().append(error.subject, "bold").append(f"  {error.field}", MUTED)
    table.add_row(Text("error", f"bold {BAD}"), what)
    table.add_row("", Text(escape_controls(error.detail)))
    if error.fix:
        table.add_row(Text("do", GOOD), Text(escape_controls(error.fix)))
    console.print(table)
