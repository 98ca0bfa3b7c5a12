"""Verification of a session, a whole log or a bundle.

A bundle is checked by the verifier of this release, never by the one inside it: whoever alters a
bundle can alter that file too.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import assert_never

from pydantic import JsonValue
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from turnlog.events.errors import Corrupt, Refused, Unavailable
from turnlog.projections.audit.export.bundle_format import MANIFEST_FILE
from turnlog.projections.audit.verify.signed_checkpoints import AuditCheckpoint
from turnlog.services.api.published_errors.error_code import ExitCode
from turnlog.services.api.verify_payloads import (
    VerifyFindingLine,
    VerifyProgressLine,
    VerifySummaryLine,
)
from turnlog.services.bundle import verifier
from turnlog.services.bundle.bundle_unpacking import unpack_bundle
from turnlog.services.bundle.consistency_verifier import verify_consistency
from turnlog.services.bundle.forgetting_verifier import verify_forgetting
from turnlog.services.bundle.proof_verifier import verify_proof
from turnlog.services.cli.client.service_client import ServiceClient
from turnlog.services.cli.client.verification_reads import (
    VerificationLine,
    stream_verification,
    verify_session,
)
from turnlog.services.cli.console import (
    OutputFormat,
    create_error_console,
    create_output_console,
    print_answer,
    print_json,
)
from turnlog.services.cli.views.verification_view import (
    render_log_verification,
    render_session_verification,
)

STAGE_LABELS = {"chain": "checking the chain", "sessions": "having prompts again"}


async def print_verification(
    service: ServiceClient,
    session: str | None,
    witness: AuditCheckpoint | None,
    output: OutputFormat,
) -> ExitCode:
    """Verify a session, or the whole log if None, print the result, and return the exit code."""
    if session is None:
        return await _verify_log(service, witness, output)
    return await _verify_session(service, session, witness, output)


async def _verify_session(
    service: ServiceClient, session: str, witness: AuditCheckpoint | None, output: OutputFormat
) -> ExitCode:
    noted = witness.sessions.get(session) if witness else None
    if witness and noted is None:
        detail = f"the checkpoint of {witness.at} knows no session {session}"
        fix = "verify it without, or take a checkpoint later than its first event"
        raise Refused("unknown-session", detail, field="--checkpoint", fix=fix)
    found = await verify_session(service, session, noted)
    print_answer(found, render_session_verification(found), output)
    return ExitCode.OK if found.verified else ExitCode.VERIFICATION_FAILED


async def _verify_log(
    service: ServiceClient, witness: AuditCheckpoint | None, output: OutputFormat
) -> ExitCode:
    findings: list[VerifyFindingLine] = []
    over: VerifySummaryLine | None = None
    with create_progress_bar() as bar:
        async with aclosing(stream_verification(service, witness)) as lines:
            async for line in lines:
                over = _handle_line(line, findings, bar) or over
    if over is None:
        raise Unavailable("the service", "it said nothing")
    if output == "json":
        found: list[JsonValue] = [each.model_dump(mode="json") for each in findings]
        print_json({**over.model_dump(mode="json"), "found": found})
    else:
        create_output_console().print(render_log_verification(over, findings))
    return find_exit_code(findings)


def find_exit_code(findings: Sequence[VerifyFindingLine]) -> ExitCode:
    """Return the exit code of a verification; a keyring that is lacking is no fault of a record."""
    if not findings:
        return ExitCode.OK
    is_lacking = all(each.finding.check == "keyring" for each in findings)
    return ExitCode.ERROR if is_lacking else ExitCode.VERIFICATION_FAILED


def _handle_line(
    line: VerificationLine, findings: list[VerifyFindingLine], bar: Progress
) -> VerifySummaryLine | None:
    match line:
        case VerifyProgressLine(stage=stage, done=done, goal=goal, rate=rate):
            task = bar.task_ids[-1] if bar.task_ids else bar.add_task("")
            description = f"{STAGE_LABELS[stage]}, {rate:,.0f} events/s"
            bar.update(task, description=description, completed=done, total=goal)
        case VerifyFindingLine():
            findings.append(line)
        case VerifySummaryLine():
            return line
        case _ as never:
            assert_never(never)
    return None


def create_progress_bar() -> Progress:
    """Create a progress bar on standard error that disappears at the end."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(
        *columns,
        console=create_error_console(),
        transient=True,
        disable=not create_error_console().is_terminal,
    )


def verify_bundle(bundle: Path, signer: str | None) -> ExitCode:
    """Check a bundle, print the result line by line, and return the exit code."""
    with _unpack_bundle(bundle) as folder:
        if not (folder / MANIFEST_FILE).exists():
            raise _build_refusal(bundle, f"there is no {MANIFEST_FILE} in it")
        return ExitCode(verifier.main(folder, (f"--key={signer}",) if signer else ()))


def verify_receipt(bundle: Path, receipt: Path, signer: str | None) -> ExitCode:
    """Check a bundle against the receipt of an erasure, print the result, return the exit code."""
    options = [f"--key={signer}"] if signer else []
    with _unpack_bundle(bundle) as folder:
        return ExitCode(verify_forgetting([*options, "--", str(folder), str(receipt)]))


def verify_proof_file(proof: Path, signer: str | None, checkpoint: Path | None) -> ExitCode:
    """Check the proof of a call, print the result line by line, and return the exit code."""
    options = [f"--key={signer}"] if signer else []
    options += [f"--checkpoint={checkpoint}"] if checkpoint else []
    return ExitCode(verify_proof([*options, "--", str(proof)]))


@dataclass(frozen=True, slots=True)
class CheckpointPair:
    """Two checkpoints, and the file with the nodes between them."""

    older: Path
    newer: Path
    consistency: Path


def verify_checkpoint_pair(pair: CheckpointPair, signer: str | None) -> ExitCode:
    """Check that a checkpoint continues another, print the result, and return the exit code."""
    options = [f"--key={signer}"] if signer else []
    files = map(str, (pair.older, pair.newer, pair.consistency))
    return ExitCode(verify_consistency([*options, "--", *files]))


@contextmanager
def _unpack_bundle(bundle: Path) -> Generator[Path]:
    if bundle.is_dir():
        yield bundle
        return
    with TemporaryDirectory(prefix="turnlog-bundle-") as place:
        try:
            unpack_bundle(bundle, Path(place))
        except Corrupt as fault:
            raise _build_refusal(bundle, fault.detail) from None
        yield Path(place)


def _build_refusal(bundle: Path, reason: str) -> Refused:
    fix = "name what `turnlog export --bundle` made"
    return Refused("invalid", f"{bundle} is no bundle: {reason}", field="--bundle", fix=fix)
