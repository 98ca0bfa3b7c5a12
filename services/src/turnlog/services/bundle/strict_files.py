"""Strict reading of proofs, checkpoints and receipts: JSON of one spelling only, and signatures.

The verifiers of these have this module in them, so it needs nothing but Python's standard library.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnlog.services.bundle.check_lines import VerificationFailure, encode_canonical, is_object
from turnlog.services.bundle.ed25519_signatures import is_signed

MAX_CHECKPOINT = 256 * 1024 * 1024  # Bytes of a checkpoint
HASH_FORM = re.compile("sha256:[0-9a-f]{64}")
NODE_FORM = re.compile("[0-9a-f]{64}")


def read_json(file: Path, limit: int) -> dict[str, Any]:
    """Read a JSON object from a file; raise where a field occurs twice, or it is too large."""
    with file.open("rb") as opened:
        raw = opened.read(limit + 1)
    if len(raw) > limit:
        raise VerificationFailure(f"{file.name}: it is larger than {limit} bytes")
    value = json.loads(raw, object_pairs_hook=refuse_repeated)
    if not is_object(value):
        raise VerificationFailure(f"{file.name}: it is not a JSON object")
    return value


def refuse_repeated(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise VerificationFailure("a field occurs twice")
    return dict(pairs)


def require_fields(value: object, *allowed: set[str]) -> None:
    """Raise unless a value is an object that has exactly one of these sets of fields."""
    if not is_object(value) or set(value) not in allowed:
        raise VerificationFailure(
            f"its fields are not {' or '.join(map(str, map(sorted, allowed)))}"
        )


def require_number(value: object, low: int, high: int, what: str) -> int:
    """Return a whole number within bounds; `true` is none."""
    if type(value) is not int or not low <= value <= high:
        raise VerificationFailure(f"its {what} is not a number from {low} to {high}")
    return value


def decode_base64(text: str) -> bytes:
    """Decode base64; raise for a second spelling of the same bytes."""
    raw = b64decode(text, validate=True)
    if b64encode(raw).decode() != text:
        raise VerificationFailure("its base64 is not canonical")
    return raw


def parse_hash(text: str) -> bytes:
    """Return the bytes of a digest; raise for another form."""
    if not HASH_FORM.fullmatch(text):
        raise VerificationFailure(f"{text!a} is no digest")
    return bytes.fromhex(text[7:])


def parse_nodes(path: Sequence[str]) -> list[bytes]:
    """Return the bytes of the nodes of a path; raise for another form."""
    if not isinstance(path, list) or not all(map(NODE_FORM.fullmatch, path)):
        raise VerificationFailure("a node of the path is not 64 lower-case hexadecimal digits")
    return [bytes.fromhex(node) for node in path]


def check_signatures(
    stated: dict[str, Any],
    signatures: Sequence[dict[str, Any]],
    trusted: str | None,
    form: str = "turnlog-checkpoint/2",
) -> Sequence[str]:
    """Check who signed what a file states, and that the named key did; return the keys."""
    keys = list[str]()
    if stated["format"] != form:
        raise VerificationFailure("it is of another format")
    for each in signatures:
        require_fields(each, {"algorithm", "key", "signature"})
        signature, key = decode_base64(each["signature"]), decode_base64(each["key"])
        is_known = each["algorithm"] == "ed25519"
        if not is_known or not is_signed(encode_canonical(stated), signature, key):
            raise VerificationFailure(f"the signature is not that of {each['key']}")
        keys.append(each["key"])
    if not keys or trusted not in {None, *keys}:
        raise VerificationFailure(f"it is not signed by {trusted or 'anybody'}")
    return keys
