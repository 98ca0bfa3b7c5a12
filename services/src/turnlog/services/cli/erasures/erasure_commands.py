"""Commands that erase words of sealed sessions, and show what was erased."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from turnlog.contract.value_names import ErasedPart
from turnlog.services.cli.checkpoints.checkpoint_commands import KeyOption
from turnlog.services.cli.command_runner import run_command, run_with_service, show_answer
from turnlog.services.cli.options import (
    LookTarget,
    OutputOption,
    ReadTarget,
    ServiceTarget,
    SessionArgument,
)


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
    from turnlog.services.cli.erasures.source_erasure_view import render_user_erasure

    operation = tenant_operations.erase_user(user, **asdict(options))
    run_command(target, operation, render_user_erasure, output)


def list_erasures(
    session: SessionArgument, *, target: ReadTarget, output: OutputOption = "table"
) -> None:
    """Show what was erased of a session, after trying to open it by the keys that are left."""
    from turnlog.client import operations
    from turnlog.services.cli.erasures.erasure_view import render_receipts

    show_answer(target, operations.list_erasures(session), render_receipts, output)


def sign_receipt(
    session: SessionArgument,
    erasure: Annotated[
        int,
        typer.Argument(metavar="ERASURE", min=1, help="The event that began it, a sequence."),
    ],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file to write; must not exist yet.")
    ],
    *,
    with_keys: Annotated[
        bool,
        typer.Option(
            "--with-keys",
            help="With the keys that are left: whoever has them and the bundle reads the rest.",
        ),
    ] = False,
    key: KeyOption = None,
    verifier: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the Python file that verifies it."),
    ] = None,
    target: LookTarget,
) -> None:
    """Sign a receipt of an erasure, which a stranger checks with a bundle and without Turnlog.

    It names every event, prompt and session that was reached, the ends of their chains, and what
    is left of the keys, by digests. It was checked by the same program before it is written. The
    key is that of checkpoints.
    """
    from turnlog.services.cli.checkpoints.checkpoint_files import choose_key_file
    from turnlog.services.cli.erasures.receipt_files import ReceiptFiles, create_receipt_file

    files = ReceiptFiles(receipt=file, key=choose_key_file(target, key), verifier=verifier)
    run_with_service(
        target,
        lambda service: create_receipt_file(service, session, erasure, files, with_keys=with_keys),
    )


def erase_source(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="document:COLLECTION/ENTRY, collection:COLLECTION, segment:NUMBER[@VERSION], "
            "override:BLUEPRINT/CATEGORY/USER or overrides:USER.",
        ),
    ],
    *,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Recorded for good: name no person.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be erased.")
    ] = False,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Erase texts of a sealed library for good, in all of their versions.

    They are removed, and their keys with them. Retrievals and prompts that had them go too; replies
    stay, and may repeat them. The receipt names the sessions and the calls.
    """
    from turnlog.client import tenant_operations
    from turnlog.services.cli.erasures.source_erasure_view import render_source_erasure

    operation = tenant_operations.erase_source(source, reason, dry_run=dry_run)
    run_command(target, operation, render_source_erasure, output)


def list_source_erasures(*, target: ReadTarget, output: OutputOption = "table") -> None:
    """Show what was erased of the library, after trying to open it by the keys that are left."""
    from turnlog.client import tenant_operations
    from turnlog.services.cli.erasures.source_erasure_view import render_source_erasures

    show_answer(target, tenant_operations.list_source_erasures(), render_source_erasures, output)
