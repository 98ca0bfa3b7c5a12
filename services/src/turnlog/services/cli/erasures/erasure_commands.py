"""Commands that erase words of sealed sessions, and show what was erased."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from turnlog.contract.value_names import ErasedPart
from turnlog.services.cli.command_runner import run_command, show_answer
from turnlog.services.cli.options import OutputOption, ReadTarget, ServiceTarget, SessionArgument


@dataclass(frozen=True, slots=True)
class ErasureOptions:
    """How and why something is erased."""

    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Recorded for good: name no person.")
    ]
    with_replies: Annotated[
        bool,
        typer.Option(
            "--with-replies", help="Also what came of other turns whose prompts had the words."
        ),
    ] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be erased.")] = (
        False
    )


def erase_words(
    session: SessionArgument,
    turn: Annotated[
        int | None,
        typer.Argument(metavar="[TURN]", min=1, help="A turn; by default the whole session."),
    ] = None,
    *,
    of: Annotated[
        ErasedPart,
        typer.Option("--of", help="What was submitted (`text`), what came of it, or both."),
    ] = "turn",
    options: ErasureOptions,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Erase words of a sealed session for good: nobody can read them again.

    Their keys are removed, here and in every fork and child that has them. What was made of them
    goes too: summaries, prompts, digests. The receipt names all of it.
    """
    from turnlog.client import operations
    from turnlog.services.cli.erasures.erasure_view import render_receipt

    operation = operations.erase_words(session=session, turn=turn, of=of, **asdict(options))
    run_command(target, operation, render_receipt, output)


def erase_user(
    user: Annotated[str, typer.Argument(metavar="USER", help="The user's name.")],
    *,
    options: ErasureOptions,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Erase all sessions of a user, and what the user asked in sessions of others, for good.

    Sessions in which it cannot be done are named with the reason; repeat it then.
    """
    from turnlog.client import tenant_operations
    from turnlog.services.cli.erasures.erasure_view import render_user_erasure

    operation = tenant_operations.erase_user(user, **asdict(options))
    run_command(target, operation, render_user_erasure, output)


def list_erasures(
    session: SessionArgument, *, target: ReadTarget, output: OutputOption = "table"
) -> None:
    """Show what was erased of a session, after trying to open it by the keys that are left."""
    from turnlog.client import operations
    from turnlog.services.cli.erasures.erasure_view import render_receipts

    show_answer(target, operations.list_erasures(session), render_receipts, output)
