"""Proofs of calls: join the proof of a service with a signed checkpoint, check it and write it.

What is written was checked before by the verifier that its recipient runs.
"""

from __future__ import annotations

from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.text import Text

from turnlog.client import operations
from turnlog.contract.call_payloads import CallProofView
from turnlog.events.errors import Corrupt, Refused
from turnlog.projections.audit.export.proof_format import (
    PROOF_BYTES,
    CallProof,
    EventInProof,
    fit_proof,
)
from turnlog.projections.audit.verify.signed_checkpoints import (
    SessionWitness,
    SignedCheckpoint,
    build_session_witness,
)
from turnlog.services.bundle.bundle_zip import build_verifier
from turnlog.services.bundle.proof_verifier import verify_proof
from turnlog.services.cli.actions.session_export import count_late_redactions
from turnlog.services.cli.checkpoints.checkpoint_files import load_checkpoint_file
from turnlog.services.cli.client.prompt_reads import find_reply_call
from turnlog.services.cli.client.service_client import ServiceClient
from turnlog.services.cli.console import create_error_console, create_output_console
from turnlog.services.cli.views.text_format import format_count
from turnlog.services.cli.views.theme import GOOD, MUTED


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofFiles:
    """The files of `turnlog prove`."""

    proof: Path
    """The file to write."""
    checkpoint: Path
    """The signed checkpoint that covers the call."""
    verifier: Path | None
    """Where to write the verifier as well."""


async def create_proof_file(
    service: ServiceClient, session: str, which: str, files: ProofFiles, *, whole: bool
) -> None:
    """Prove a call, or the call that gave the reply of a turn, in a file that must not exist.

    Raises `Refused` where the checkpoint does not cover the call, and `Corrupt` where the log is
    not the one that was signed.
    """
    for file in filter(None, (files.proof, files.verifier)):
        if file.exists():
            detail = f"{file} is there already"
            raise Refused("file-exists", detail, field="FILE", fix="name another file")
    signed = load_checkpoint_file(files.checkpoint, None)
    witness = _find_witness(signed, session, files.checkpoint)
    call = await find_reply_call(service, session, which)
    found = await _fetch_proof(service, session, call, witness)
    proof = _join_proof(found, witness)
    if not whole:
        proof = fit_proof(proof, _find_manifest_event(found))
    _write_checked(proof, files.proof)
    if files.verifier:
        files.verifier.write_text(build_verifier("proof_verifier"))
    await _warn_of_redactions(service, session)
    _print_proof(proof, files)


def _find_witness(signed: SignedCheckpoint, session: str, file: Path) -> SessionWitness:
    witness = build_session_witness(signed, session)
    if witness is not None:
        return witness
    is_noted = session in signed.checkpoint.sessions
    detail = (
        f"{file} has no roots of trees, for an earlier release made it"
        if is_noted
        else f"{file} does not note session {session}"
    )
    fix = "take a new one with `turnlog checkpoint`"
    raise Refused("not-covered", detail, field="--checkpoint", fix=fix)


async def _fetch_proof(
    service: ServiceClient, session: str, call: str, witness: SessionWitness
) -> CallProofView:
    """Fetch the proof of a call up to the noted head; raises `Corrupt` if the log has another."""
    head = witness.head
    where = f"session {session}"
    try:
        found = await service.send(operations.fetch_proof(session, call, head.sequence))
    except Refused as refused:
        if refused.code != "not-there-yet":
            raise
        detail = f"the checkpoint notes event {head.sequence}, and the log ends before it"
        raise Corrupt(where, detail) from None
    if (found.hash, found.root) != (head.hash, head.root):
        detail = f"its first {head.sequence} events are not those that the checkpoint notes"
        raise Corrupt(where, detail)
    return found


def _join_proof(found: CallProofView, witness: SessionWitness) -> CallProof:
    return CallProof(
        checkpoint=witness.checkpoint,
        signatures=witness.signatures,
        head=witness.head,
        position=witness.position,
        heads_path=witness.heads_path,
        session=found.session,
        call=found.call,
        request=found.request,
        events=tuple(
            EventInProof(sequence=each.sequence, stored=each.stored, key=each.key)
            for each in found.events
        ),
        path=found.path,
    )


def _find_manifest_event(found: CallProofView) -> int:
    """Return the sequence of the event that fixed the prompt."""
    kind = '"type":"turnlog.context-assembled.v1"'
    return max(each.sequence for each in found.events if kind in each.stored)


def _write_checked(proof: CallProof, to: Path) -> None:
    """Write a proof that its recipient's verifier accepts; raises `Corrupt` for another."""
    to.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=to.parent, prefix=f".{to.name}.") as beside:
        file, printed = Path(beside) / to.name, StringIO()
        file.write_bytes(proof.encode_json())
        with redirect_stdout(printed):
            code = verify_proof([str(file)])
        if code:
            lines = printed.getvalue().splitlines()
            failed = [line.removeprefix("FAILED  ") for line in lines if line.startswith("FAILED")]
            raise Corrupt("proof", "; ".join(failed))
        file.rename(to)


async def _warn_of_redactions(service: ServiceClient, session: str) -> None:
    """Say on standard error how many texts of the session were redacted after being said."""
    if count := await count_late_redactions(service, session):
        texts = "1 text" if count == 1 else f"{count} texts"
        create_error_console().print(
            f"{texts} of the session redacted after being said: the proof may have what was said"
        )


def _print_proof(proof: CallProof, files: ProofFiles) -> None:
    size = len(proof.encode_json())
    hidden = sum(each.stored is None for each in proof.events)
    line = Text().append("proved", f"bold {GOOD}")
    line.append(f" · call {proof.call} of {proof.session}")
    line.append(f" · {format_count(len(proof.events), 'event')}")
    line.append(f", {hidden} by digest" if hidden else "")
    line.append(", the request by digest" if proof.request is None else ", with the request")
    line.append(f" · {size:,} bytes · {files.proof}", MUTED)
    create_output_console().print(line, soft_wrap=True)
    if size > PROOF_BYTES:
        create_error_console().print(f"the proof has more than {PROOF_BYTES:,} bytes")
    if files.verifier:
        instruction = f"python3 -I {files.verifier.name} {files.proof.name}"
        create_error_console().print(f"to check it: {instruction}", soft_wrap=True)
