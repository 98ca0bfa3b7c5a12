"""Signed receipts of erasures: state what a service proves, sign it, check it and write it.

What is written was checked before by the verifier that its recipient runs, on bundles of the
sessions as the service has them now.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import BaseModel, Field, JsonValue
from rich.text import Text

from turnlog.client import operations
from turnlog.contract.erasures.erasure_payloads import ErasureProof
from turnlog.events.codec import format_rfc3339
from turnlog.events.content import encode_canonical
from turnlog.events.errors import Corrupt, Refused
from turnlog.projections.audit.verify.signed_checkpoints import CheckpointSignature
from turnlog.services.audit.checkpoint_signatures import sign_bytes
from turnlog.services.bundle.bundle_zip import build_verifier
from turnlog.services.bundle.forgetting_verifier import verify_forgetting
from turnlog.services.bundle.verifier import EXIT_FAILED
from turnlog.services.cli.actions.session_export import fetch_bundle
from turnlog.services.cli.checkpoints.checkpoint_files import load_announced_key
from turnlog.services.cli.client.service_client import ServiceClient
from turnlog.services.cli.console import create_error_console, create_output_console
from turnlog.services.cli.views.text_format import format_count
from turnlog.services.cli.views.theme import GOOD, MUTED

RECEIPT_FORMAT: Final = "turnlog-receipt/1"

_STATED_FIELDS: Final = {"session", "erasure", "at", "by", "reason", "kept_elsewhere"}

_REACHED_FIELDS: Final = {
    *("begun", "ended", "turns", "leaves", "calls", "repeating_turns"),
    *("generation", "record_before", "record_after"),
}


class SignedReceipt(BaseModel):
    """A signed receipt as it is stored in a file."""

    receipt: dict[str, JsonValue]
    """What is signed, as canonical JSON."""
    keys: Annotated[
        dict[str, dict[str, str]] | None, Field(exclude_if=lambda keys: keys is None)
    ] = None
    """The keys that are left, by session and leaves; each has its digest in the receipt."""
    signatures: tuple[CheckpointSignature, ...]

    def encode_json(self) -> str:
        """Return the text of the file."""
        return encode_canonical(self.model_dump(mode="json")) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptFiles:
    """The files of `turnlog receipt`."""

    receipt: Path
    """The file to write."""
    key: Path
    """The signing key, created if it is missing."""
    verifier: Path | None
    """Where to write the verifier as well."""


async def create_receipt_file(
    service: ServiceClient, session: str, erasure: int, files: ReceiptFiles, *, with_keys: bool
) -> None:
    """Sign the receipt of an erasure in a file that must not exist.

    Raises `Corrupt` where the record of the sessions does not agree with it.
    """
    for file in filter(None, (files.receipt, files.verifier)):
        if file.exists():
            detail = f"{file} is there already"
            raise Refused("file-exists", detail, field="FILE", fix="name another file")
    found = await service.send(operations.prove_erasure(session, erasure, with_keys=with_keys))
    noted = format_rfc3339(datetime.now(UTC))
    signed = sign_receipt(found, noted, load_announced_key(files.key))
    await _write_checked(service, found, signed, files.receipt)
    if files.verifier:
        files.verifier.write_text(build_verifier("forgetting_verifier"))
    _print_receipt(found, signed, files)


def sign_receipt(found: ErasureProof, noted: str, key: Ed25519PrivateKey) -> SignedReceipt:
    """Return a signed receipt; the keys that are left are beside it, not in what is signed."""
    stated = state_receipt(found, noted)
    signature = sign_bytes(encode_canonical(stated).encode(), key)
    secret = {
        part.session: {f"{each.first}-{each.last}": each.key for each in part.keys if each.key}
        for part in found.parts
    }
    keys = {session: keys for session, keys in secret.items() if keys}
    return SignedReceipt(receipt=stated, keys=keys or None, signatures=(signature,))


def state_receipt(found: ErasureProof, noted: str) -> dict[str, JsonValue]:
    """Return what is signed of a receipt."""
    receipt = found.receipt.model_dump(mode="json", include=_STATED_FIELDS)
    return {
        "format": RECEIPT_FORMAT,
        "noted": noted,
        "tenant": found.tenant,
        **receipt,
        "sessions": list(_iterate_parts(found)),
    }


def _iterate_parts(found: ErasureProof) -> Iterator[dict[str, JsonValue]]:
    for reached, part in zip(found.receipt.sessions, found.parts, strict=True):
        yield {
            **reached.model_dump(mode="json", include=_REACHED_FIELDS),
            **part.model_dump(mode="json", exclude={"keys": {"__all__": {"key"}}}),
        }


async def _write_checked(
    service: ServiceClient, found: ErasureProof, signed: SignedReceipt, to: Path
) -> None:
    """Write a receipt that its recipient's verifier accepts; raises `Corrupt` for another."""
    to.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=to.parent, prefix=f".{to.name}.") as beside:
        file, bundle, printed = Path(beside) / to.name, Path(beside) / "bundle", StringIO()
        file.write_text(signed.encode_json())
        bundle.mkdir()
        await fetch_bundle(service, [part.session for part in found.parts], bundle)
        with redirect_stdout(printed):
            code = verify_forgetting([str(bundle), str(file)])
        if code == EXIT_FAILED:
            lines = printed.getvalue().splitlines()
            failed = [line.removeprefix("FAILED  ") for line in lines if line.startswith("FAILED")]
            raise Corrupt("receipt", "; ".join(failed))
        file.rename(to)


def _print_receipt(found: ErasureProof, signed: SignedReceipt, files: ReceiptFiles) -> None:
    events = sum(len(part.events) for part in found.parts)
    calls = sum(len(each.calls) for each in found.receipt.sessions)
    line = Text().append("signed", f"bold {GOOD}")
    line.append(f" · {format_count(len(found.parts), 'session')}")
    line.append(f", {format_count(events, 'event')}, {format_count(calls, 'prompt')}")
    line.append(", with the keys that are left" if signed.keys else "")
    create_output_console().print(line.append(f" · {files.receipt}", MUTED), soft_wrap=True)
    (by,) = signed.signatures
    create_output_console().print(Text(f"by key {by.key}", MUTED), soft_wrap=True)
    sessions = " ".join(part.session for part in found.parts)
    instruction = f"turnlog export {sessions} --bundle DIR"
    create_error_console().print(f"the bundle beside it: {instruction}", soft_wrap=True)
    if files.verifier:
        instruction = f"python3 -I {files.verifier.name} DIR {files.receipt.name}"
        create_error_console().print(f"to check it: {instruction}", soft_wrap=True)
