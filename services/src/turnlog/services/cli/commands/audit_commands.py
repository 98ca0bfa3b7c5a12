"""Commands of the audit: explain, compare, verify, sign, export, and read withheld texts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from turnlog.services.cli.command_runner import run_async, run_with_service
from turnlog.services.cli.options import (
    LogTarget,
    LookTarget,
    OutputOption,
    ReadTarget,
    SessionArgument,
    StoredOption,
)
from turnlog.services.cli.session_options import SessionConditionOptions, SessionFilterOptions

if TYPE_CHECKING:
    from turnlog.services.cli.client.service_client import ServiceClient


def explain_turn(
    session: SessionArgument,
    which: Annotated[
        str,
        typer.Argument(metavar="TURN|CALL", help="A turn (3) or one of its calls (3.1)."),
    ],
    *,
    target: LookTarget,
    output: OutputOption = "table",
) -> None:
    """Explain a turn's prompt: each layer, and why it was included."""
    from turnlog.services.cli.actions.prompt_explanations import print_explanation

    run_with_service(target, lambda service: print_explanation(service, session, which, output))


def compare_calls(
    session: SessionArgument,
    before: Annotated[
        str,
        typer.Argument(
            metavar="A", help="A call (3.1), or the turn (3) that it gave the reply of."
        ),
    ],
    after: Annotated[str, typer.Argument(metavar="B", help="What to compare it with.")],
    *,
    other: Annotated[
        str | None,
        typer.Option(
            "--other", metavar="SESSION", help="The session of call B, if it is another one."
        ),
    ] = None,
    target: LookTarget,
    output: OutputOption = "table",
) -> None:
    """Compare the prompts of two calls: each part added, removed or changed, and the cause."""
    from turnlog.services.cli.actions.prompt_explanations import print_diff

    run_with_service(
        target,
        lambda service: print_diff(
            service=service, session=session, calls=(before, after), other=other, output=output
        ),
    )


def show_withheld_text(
    session: SessionArgument,
    turn: Annotated[int, typer.Argument(metavar="TURN", min=1, help="The turn, counted from 1.")],
    *,
    nats: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="TURNLOG_NATS_URL",
            help="The NATS server with the log, if it is not local.",
        ),
    ] = None,
    target: LogTarget,
    output: OutputOption = "table",
) -> None:
    """Show the text that an output rule withheld; read from the log, never over HTTP.

    It needs access to the data directory, or a NATS user that may read every session. No page,
    route or other command shows such a text.
    """
    from turnlog.services.cli.actions.withheld_texts import print_withheld_text

    run_async(
        print_withheld_text(target=target, nats=nats, session=session, turn=turn, output=output)
    )


CheckpointOption = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint",
        metavar="FILE|DIR",
        exists=True,
        help="Compare with a checkpoint, which shows a truncated, restored or rewritten log; of a"
        " folder with the newest. All sessions are compared with the folder TURNLOG_CHECKPOINTS.",
    ),
]

SignerOption = Annotated[
    str | None,
    typer.Option(
        "--signer", metavar="KEY", help="The public key that must have signed the checkpoint."
    ),
]

BundleOption = Annotated[
    Path | None,
    typer.Option(
        "--bundle",
        metavar="DIR|FILE.zip",
        exists=True,
        help="Verify an exported bundle instead of the log.",
    ),
]

ProofOption = Annotated[
    Path | None,
    typer.Option(
        "--proof",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="Verify the proof of a call instead of the log.",
    ),
]


BetweenOption = Annotated[
    tuple[Path, Path] | None,
    typer.Option(
        "--between",
        metavar="OLDER NEWER",
        exists=True,
        dir_okay=False,
        help="Verify that the second checkpoint continues the first, without the log.",
    ),
]

ConsistencyOption = Annotated[
    Path | None,
    typer.Option(
        "--consistency",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="With --between: what `turnlog checkpoint --after` wrote with the second one.",
    ),
]


ReceiptOption = Annotated[
    Path | None,
    typer.Option(
        "--receipt",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="With --bundle: verify that an erasure reached what its signed receipt says.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineOptions:
    """What `turnlog verify` checks without the log."""

    bundle: BundleOption = None
    receipt: ReceiptOption = None
    proof: ProofOption = None
    between: BetweenOption = None
    consistency: ConsistencyOption = None

    def list_named(self) -> list[str]:
        """List the options that are given."""
        given = {"--bundle": self.bundle, "--proof": self.proof, "--between": self.between}
        return [option for option, value in given.items() if value]

    def check_options(self, *, has_record: bool, has_witness: bool, output: str) -> None:
        """Raise an error for options that do not go together; `has_record` names sessions."""
        named = self.list_named()
        if self.receipt and self.bundle is None:
            raise typer.BadParameter("it goes with --bundle", param_hint="--receipt")
        if (self.between is None) != (self.consistency is None):
            raise typer.BadParameter("it goes with --consistency", param_hint="--between")
        if not named:
            return
        is_alone = len(named) == 1 and not has_record and output != "json"
        if not is_alone or (has_witness and self.proof is None):
            alone = "it is checked by itself, by what is in it, and told line by line"
            raise typer.BadParameter(alone, param_hint=named[0])


def verify_record(
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="One session; all by default.")
    ] = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="All sessions and the library (the default).")
    ] = False,
    offline: OfflineOptions,
    witness: CheckpointOption = None,
    signer: SignerOption = None,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Verify that the record is unaltered and complete, and reproduce every prompt in two ways.

    If verification fails, the exit code is 5 and the first bad event is named. It is 1 if nothing
    is wrong but that sealed sessions lack their keyring. Prompts that this version cannot assemble
    again are reported separately from failures. A bundle is verified by this release's copy of the
    bundle verifier, never by the copy inside the bundle; the exit code is 6 if nothing in it
    differs and no signed checkpoint covers all of its events, or not all that a `--receipt` says is
    shown. A proof is verified likewise; with
    `--checkpoint` it must be one against that checkpoint.
    """
    from turnlog.services.cli.actions.verification import print_verification
    from turnlog.services.cli.checkpoints.checkpoint_files import load_signed_checkpoint
    from turnlog.services.cli.checkpoints.checkpoint_folder import (
        find_checkpoint_file,
        find_configured_folder,
    )

    if session and everything:
        raise typer.BadParameter("name a session, or ask for all", param_hint="--all")
    offline.check_options(
        has_record=bool(session or everything), has_witness=witness is not None, output=output
    )
    if signer and not (witness or offline.list_named()):
        alone = "it goes with --checkpoint, --bundle, --proof or --between"
        raise typer.BadParameter(alone, param_hint="--signer")
    if offline.list_named():
        file = find_checkpoint_file(witness) if witness else None
        raise typer.Exit(_verify_offline(offline, file, signer))
    place = witness or (None if session else find_configured_folder())
    noted = load_signed_checkpoint(find_checkpoint_file(place), signer) if place else None
    code = run_with_service(
        target, lambda service: print_verification(service, session, noted, output)
    )
    if code:
        raise typer.Exit(code)


def _verify_offline(offline: OfflineOptions, witness: Path | None, signer: str | None) -> int:
    """Verify what is checked without the log, and return the exit code."""
    from turnlog.services.cli.actions.verification import (
        CheckpointPair,
        verify_bundle,
        verify_checkpoint_pair,
        verify_proof_file,
        verify_receipt,
    )

    if offline.proof:
        return verify_proof_file(offline.proof, signer, witness)
    if offline.between and offline.consistency:
        pair = CheckpointPair(*offline.between, offline.consistency)
        return verify_checkpoint_pair(pair, signer)
    bundle = offline.bundle or Path()
    if offline.receipt:
        return verify_receipt(bundle, offline.receipt, signer)
    return verify_bundle(bundle, signer)


def prove_call(
    session: SessionArgument,
    which: Annotated[
        str,
        typer.Argument(metavar="CALL", help="A call (3.1), or the turn (3) that it replied to."),
    ],
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file to write; must not exist yet.")
    ],
    *,
    checkpoint: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="A signed checkpoint that was taken after the call.",
        ),
    ],
    verifier: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write the Python file that verifies it."),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="All texts, however large the proof becomes.")
    ] = False,
    target: LookTarget,
) -> None:
    """Write a proof of one call that a stranger can verify without the log and without Turnlog.

    It has the request and the events of the call, and the paths from them to the checkpoint. A
    proof has at most 20,000 bytes: what is too large is in it by its digest. A reply that was
    redacted later is in it as it is stored.
    """
    from turnlog.services.cli.actions.proof_files import ProofFiles, create_proof_file

    files = ProofFiles(proof=file, checkpoint=checkpoint, verifier=verifier)
    run_with_service(
        target, lambda service: create_proof_file(service, session, which, files, whole=whole)
    )


def export_sessions(
    sessions: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SESSION...]", help="The sessions, or options that select them."),
    ] = None,
    *,
    filters: SessionFilterOptions,
    bundle: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR|FILE.zip", help="Write a bundle that others can verify without Turnlog."
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="A signed checkpoint to include in the bundle.",
        ),
    ] = None,
    format: Annotated[  # noqa: A002 - the name of the option
        Literal["ndjson", "parquet", "chat"],
        typer.Option(
            help="Without a bundle: events as JSON lines, a table, or a Markdown transcript."
        ),
    ] = "ndjson",
    to: Annotated[
        Path | None,
        typer.Option(metavar="FILE|DIR", help="The file to write; a folder for several sessions."),
    ] = None,
    stored: StoredOption = False,
    target: LookTarget,
) -> None:
    """Export sessions as a verifiable bundle, JSON lines, a table or a Markdown transcript.

    A bundle contains the stored events, the texts they refer to, and one Python file that verifies
    them without any installation: `python3 -I verify.py`. Text that an output rule withheld is not
    in the events. A reply that was redacted later is in a bundle, and in events with `--stored`;
    the command prints how many are.
    """
    from turnlog.services.cli.actions import session_export

    if checkpoint is not None and bundle is None:
        raise typer.BadParameter("it goes into a bundle", param_hint="--checkpoint")
    if bool(sessions) != filters.is_empty:
        raise typer.BadParameter("name sessions, or select them by options", param_hint="SESSION")

    async def export(service: ServiceClient) -> None:
        named = sessions or await session_export.list_exported_sessions(service, filters)
        if bundle is None:
            form = session_export.ExportForm(format, stored)
            await session_export.export_files(service, named, form, to)
        else:
            await session_export.export_bundle(service, named, bundle, checkpoint)

    run_with_service(target, export, with_read_models=not sessions)


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfOptions:
    """What `turnlog what-if` changes, as the body of `POST /v1/what-if` says."""

    blueprint: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of another version of the blueprint.")
    ] = None
    budget: Annotated[
        int | None,
        typer.Option(metavar="TOKENS", min=1, help="Another token budget for every call."),
    ] = None
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="MODEL", help="Another model, by its litellm name."),
    ] = None
    ladder: Annotated[
        list[str] | None,
        typer.Option(
            "--ladder",
            metavar="STEP.SETTING=VALUE",
            help="Another setting of a step that ladders have, such as drop_oldest_pairs.to=80%; "
            "may be repeated.",
        ),
    ] = None


def compare_what_if(
    sessions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SESSION...]",
            help="The sessions; by default all that the options select, or those of the blueprint.",
        ),
    ] = None,
    *,
    filters: SessionConditionOptions,
    change: WhatIfOptions,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the report as an HTML page.")
    ] = None,
    target: LookTarget,
    output: OutputOption = "table",
) -> None:
    """Show the prompts of recorded calls under another blueprint, budget, ladder or model.

    No model is called and nothing is written. The prompts are exact; the replies are not predicted.
    """
    from turnlog.contract.prompt_requests import WhatIfRequest
    from turnlog.services.cli.client.session_selection import build_session_query
    from turnlog.services.cli.key_value_args import parse_ladder_settings
    from turnlog.services.cli.what_if.what_if_comparison import print_what_if, read_blueprint_folder

    query = build_session_query(filters)
    form = WhatIfRequest(
        sessions=sessions or None,
        blueprint=read_blueprint_folder(change.blueprint) if change.blueprint else None,
        budget=change.budget,
        model=change.model,
        ladder=parse_ladder_settings(change.ladder, "--ladder") if change.ladder else None,
    )
    run_with_service(
        target,
        lambda service: print_what_if(
            service=service, form=form, query=query, output=output, html=html
        ),
        with_read_models=not sessions,
    )
