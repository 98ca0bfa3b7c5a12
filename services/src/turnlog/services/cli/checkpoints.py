"""Checkpoint files: take and sign a checkpoint of a log, and load one to verify.

The key never leaves this machine and no service sees it. Signatures are checked here, not by a
service.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import JsonValue, ValidationError
from rich.text import Text

from turnlog.events.errors import Refused
from turnlog.projections.audit.checkpoint import Checkpoint, SignedCheckpoint
from turnlog.services.cli.console import answers, print_json, remarks
from turnlog.services.cli.reader.proving import checkpoint
from turnlog.services.cli.reader.reader import Reader
from turnlog.services.cli.screens.palette import GOOD, QUIET
from turnlog.services.cli.screens.spelling import counted
from turnlog.services.cli.show import Form
from turnlog.services.runtime.signing import key_at, signed, signers


async def take(reader: Reader, file: Path, key_file: Path, form: Form) -> None:
    """Fetch a checkpoint, sign it and write it; raises `Refused` if the file exists."""
    key = key_at(key_file)
    taken = await checkpoint(reader)
    kept = signed(taken, key)
    try:
        with file.open("x") as writer:
            writer.write(kept.model_dump_json() + "\n")
    except FileExistsError:
        detail = f"{file} is there already"
        raise Refused("file-exists", detail, field="FILE", fix="name another file") from None
    _tell(kept, file, form)


def _tell(kept: SignedCheckpoint, file: Path, form: Form) -> None:
    taken, (by, *_) = kept.checkpoint, kept.signatures
    events = sum(head.sequence for head in taken.sessions.values())
    if form == "json":
        told: dict[str, JsonValue] = {
            "file": os.fspath(file),
            "sessions": len(taken.sessions),
            "events": events,
            "key": by.key,
        }
        print_json(told)
        return
    line = Text().append("signed", f"bold {GOOD}")
    line.append(f" · {counted(len(taken.sessions), 'session')}, {counted(events, 'event')}")
    answers().print(line.append(f" · {file}\n", QUIET).append(f"by key {by.key}", QUIET))


def held(file: Path, signer: str | None) -> Checkpoint:
    """Load a checkpoint and check its signatures; raises `Refused` if `signer` did not sign it.

    Raises `Corrupt` if a signature is invalid.
    """
    try:
        kept = SignedCheckpoint.model_validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        detail = f"{file} is no checkpoint: {first['msg']}"
        raise Refused("invalid", detail, field="--checkpoint", fix="name another file") from None
    keys = signers(kept)
    if signer is not None and signer not in keys:
        detail = f"{file} is signed by {', '.join(keys)}"
        fix = "take a checkpoint that this signer has signed"
        raise Refused("other-signer", detail, field="--signer", fix=fix)
    if signer is None:
        remarks().print(Text(f"signed by {', '.join(keys)}", QUIET))
    return kept.checkpoint
