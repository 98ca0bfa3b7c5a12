"""Ed25519 signatures of checkpoints, and of receipts of erasures.

The key is created when it is first needed, in a file that only its owner may read. This module does
not decide whose key to trust: readers get the key by another way.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from turnlog.events.errors import Corrupt, Refused
from turnlog.projections.audit.verify.signed_checkpoints import (
    AuditCheckpoint,
    CheckpointSignature,
    SignedCheckpoint,
)
from turnlog.services.platform.whole_files import create_file

KEY_FILE: Final = "checkpoint-key.pem"
"""Name of the key file in a data directory."""


def load_or_create_key(file: Path) -> Ed25519PrivateKey:
    """Return a file's key, creating it if it is missing; refuse a file of another kind."""
    try:
        return _load_key(file)
    except FileNotFoundError:
        return _create_key(file)


def _load_key(file: Path) -> Ed25519PrivateKey:
    try:
        key = load_pem_private_key(file.read_bytes(), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        detail = f"{file} holds no Ed25519 key that can be read without a password"
        raise Refused("bad-key", detail, field="--key", fix="name a PEM file of such a key")
    return key


def _create_key(file: Path) -> Ed25519PrivateKey:
    """Create the key, unless another process has just created one."""
    key = Ed25519PrivateKey.generate()
    written = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        create_file(file, written, mode=0o600)
    except FileExistsError:
        return _load_key(file)
    return key


def sign_checkpoint(checkpoint: AuditCheckpoint, key: Ed25519PrivateKey) -> SignedCheckpoint:
    """Return a checkpoint with its signature."""
    made = sign_bytes(checkpoint.signed_bytes, key)
    return SignedCheckpoint(checkpoint=checkpoint, signatures=(made,))


def sign_bytes(raw: bytes, key: Ed25519PrivateKey) -> CheckpointSignature:
    """Return the signature of bytes, with the public key of the signer."""
    public = key.public_key().public_bytes_raw()
    return CheckpointSignature(key=_encode_base64(public), signature=_encode_base64(key.sign(raw)))


def verify_signatures(signed_checkpoint: SignedCheckpoint) -> tuple[str, ...]:
    """Return the public keys of all signatures; raise `Corrupt` where one is invalid."""
    for each in signed_checkpoint.signatures:
        try:
            key = Ed25519PublicKey.from_public_bytes(base64.b64decode(each.key, validate=True))
            signature = base64.b64decode(each.signature, validate=True)
            key.verify(signature, signed_checkpoint.checkpoint.signed_bytes)
        except (InvalidSignature, ValueError, binascii.Error):
            detail = f"the signature by {each.key[:80]} is not one of this checkpoint"
            raise Corrupt("checkpoint", detail) from None
    return tuple(each.key for each in signed_checkpoint.signatures)


def _encode_base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
