"""Checkpoint files: take and sign a checkpoint of a log, and load one to verify.

The key never leaves this machine and no service sees it. Signatures are checked here, not by a
service.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import JsonValue, ValidationError
from rich.text import Text

from turnlog.events.errors import Corrupt, Refused
from turnlog.projections.audit.verify.checkpoint_consistency import CheckpointConsistency
from turnlog.projections.audit.verify.signed_checkpoints import (
    AuditCheckpoint,
    SignedCheckpoint,
)
from turnlog.services.audit.checkpoint_signatures import (
    KEY_FILE,
    load_or_create_key,
    sign_checkpoint,
    verify_signatures,
)
from turnlog.services.bundle.bundle_zip import build_verifier
from turnlog.services.bundle.consistency_verifier import check_consistency
from turnlog.services.cli.client.service_client import ServiceClient
from turnlog.services.cli.client.service_location import read_ready_address
from turnlog.services.cli.client.verification_reads import continue_checkpoint, fetch_checkpoint
from turnlog.services.cli.console import (
    OutputFormat,
    create_error_console,
    create_output_console,
    print_json,
)
from turnlog.services.cli.options import ReadTarget
from turnlog.services.cli.views.text_format import format_count
from turnlog.services.cli.views.theme import GOOD, MUTED


def choose_key_file(target: ReadTarget, key: Path | None) -> Path:
    """Return the file of the signing key; raises `Refused` if no data directory is known for it."""
    if key is not None:
        return key
    if target.url is None or target.url.rstrip("/") == read_ready_address(target.data_dir):
        return target.data_dir / KEY_FILE
    raise Refused(
        "no-key-file",
        f"{target.data_dir} is not the data directory of {target.url}, so no key is made there",
        field="--key",
        fix="name the file of the signing key; a missing one is created",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFiles:
    """The files of `turnlog checkpoint`."""

    checkpoint: Path
    """The file to write."""
    older: Path | None
    """The checkpoint that the log must continue."""
    consistency: Path | None
    """Where to write what shows that."""
    verifier: Path | None
    """Where to write the verifier of it as well."""


async def create_checkpoint_file(
    service: ServiceClient, files: CheckpointFiles, key_file: Path, output: OutputFormat
) -> None:
    """Fetch a checkpoint, sign it and write it; raises `Refused` if a file exists.

    Raises `Corrupt` if the log does not continue the older checkpoint.
    """
    for each in filter(None, (files.checkpoint, files.consistency, files.verifier)):
        if each.exists():
            detail = f"{each} is there already"
            raise Refused("file-exists", detail, field="FILE", fix="name another file")
    if files.older is None:
        taken = await fetch_checkpoint(service)
        signed = sign_checkpoint(taken, load_announced_key(key_file))
    else:
        older = load_checkpoint_file(files.older, None)
        signed, nodes = await sign_continued_checkpoint(
            service, older, lambda: load_announced_key(key_file)
        )
        if files.consistency:
            _write_new(files.consistency, nodes.model_dump_json())
    _write_new(files.checkpoint, signed.model_dump_json())
    if files.verifier:
        _write_new(files.verifier, build_verifier("consistency_verifier").rstrip("\n"))
    print_checkpoint(signed, files.checkpoint, output)


def _write_new(file: Path, text: str) -> None:
    try:
        with file.open("x") as writer:
            writer.write(text + "\n")
    except FileExistsError:
        detail = f"{file} is there already"
        raise Refused("file-exists", detail, field="FILE", fix="name another file") from None


async def sign_continued_checkpoint(
    service: ServiceClient, older: SignedCheckpoint, load_key: Callable[[], Ed25519PrivateKey]
) -> tuple[SignedCheckpoint, CheckpointConsistency]:
    """Return a signed checkpoint and its consistency to an older one.

    It was checked by the verifier that readers have, whatever the service says. Raises `Corrupt`
    if the log does not continue the older one.
    """
    found = await continue_checkpoint(service, older.checkpoint)
    signed = sign_checkpoint(found.checkpoint, load_key())
    was, is_now, nodes = (
        each.model_dump(mode="json") for each in (older, signed, found.consistency)
    )
    printed = StringIO()
    with redirect_stdout(printed):
        is_sound = check_consistency(was, is_now, nodes, None)
    if not is_sound:
        lines = printed.getvalue().splitlines()
        failed = [line.removeprefix("FAILED  ") for line in lines if line.startswith("FAILED")]
        raise Corrupt("the record", "; ".join(failed))
    return signed, found.consistency


def load_announced_key(file: Path) -> Ed25519PrivateKey:
    """Return the key of a file, and say so on standard error if it is created."""
    is_new = not file.exists()
    key = load_or_create_key(file)
    if is_new:
        created = Text(f"created the signing key {file.absolute()}")
        create_error_console().print(created, soft_wrap=True)
    return key


def print_checkpoint(kept: SignedCheckpoint, file: Path, output: OutputFormat) -> None:
    """Print what was signed, and by which key."""
    taken, (by, *_) = kept.checkpoint, kept.signatures
    events = sum(head.sequence for head in taken.sessions.values())
    if output == "json":
        fields: dict[str, JsonValue] = {
            "file": os.fspath(file),
            "sessions": len(taken.sessions),
            "installation": {name: head.sequence for name, head in taken.installation.items()},
            "events": events,
            "key": by.key,
        }
        print_json(fields)
        return
    line = Text().append("signed", f"bold {GOOD}")
    line.append(
        f" · {format_count(len(taken.sessions), 'session')}, {format_count(events, 'event')}"
    )
    create_output_console().print(
        line.append(f" · {file}\n", MUTED).append(f"by key {by.key}", MUTED)
    )


def load_signed_checkpoint(file: Path, signer: str | None) -> AuditCheckpoint:
    """Load the signed content of a checkpoint as `load_checkpoint_file` does."""
    return load_checkpoint_file(file, signer).checkpoint


def load_checkpoint_file(file: Path, signer: str | None) -> SignedCheckpoint:
    """Load a checkpoint and check its signatures; raises `Refused` if `signer` did not sign it.

    Raises `Corrupt` if a signature is invalid.
    """
    try:
        kept = SignedCheckpoint.model_validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        detail = f"{file} is no checkpoint: {first['msg']}"
        raise Refused("invalid", detail, field="--checkpoint", fix="name another file") from None
    keys = verify_signatures(kept)
    if signer is not None and signer not in keys:
        detail = f"{file} is signed by {', '.join(keys)}"
        fix = "take a checkpoint that this signer has signed"
        raise Refused("other-signer", detail, field="--signer", fix=fix)
    if signer is None:
        create_error_console().print(Text(f"signed by {', '.join(keys)}", MUTED))
    return kept
