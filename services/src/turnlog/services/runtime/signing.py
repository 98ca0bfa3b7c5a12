"""Signing checkpoints with Ed25519, and seeing whose signature a checkpoint bears.

The key is made when it is first needed and lies in a file that its owner alone may read. Nothing
in here says whose key may be trusted: that is known only to whoever was told the key aside.
"""

from __future__ import annotations

import base64
import binascii
import os
from pathlib import Path
from tempfile import mkstemp
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
from turnlog.projections.audit.checkpoint import Checkpoint, Signature, SignedCheckpoint

KEY_FILE: Final = "checkpoint-key.pem"
"""Where the key lies in a data directory."""


def key_at(file: Path) -> Ed25519PrivateKey:
    """Give the key of a file, made if there is none; refuses what is no such key."""
    try:
        return _read(file)
    except FileNotFoundError:
        return _made(file)


def _read(file: Path) -> Ed25519PrivateKey:
    try:
        key = load_pem_private_key(file.read_bytes(), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        detail = f"{file} holds no Ed25519 key that can be read without a password"
        raise Refused("bad-key", detail, field="--key", fix="name a PEM file of such a key")
    return key


def _made(file: Path) -> Ed25519PrivateKey:
    """Make the key beside its place, where it then is whole; of several first, one makes it."""
    key = Ed25519PrivateKey.generate()
    file.parent.mkdir(parents=True, exist_ok=True)
    held, beside = mkstemp(dir=file.parent, prefix=f".{file.name}.")  # its owner's alone
    try:
        with os.fdopen(held, "wb") as writer:
            writer.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
            writer.flush()
            os.fsync(writer.fileno())
        Path(file).hardlink_to(beside)
    except FileExistsError:
        return _read(file)
    finally:
        Path(beside).unlink()
    return key


def signed(checkpoint: Checkpoint, key: Ed25519PrivateKey) -> SignedCheckpoint:
    """Sign a checkpoint."""
    public = key.public_key().public_bytes_raw()
    made = Signature(key=_spelt(public), signature=_spelt(key.sign(checkpoint.signed_bytes)))
    return SignedCheckpoint(checkpoint=checkpoint, signatures=(made,))


def signers(kept: SignedCheckpoint) -> tuple[str, ...]:
    """Give the keys that signed a checkpoint; raises `Corrupt` where a signature does not hold."""
    for each in kept.signatures:
        try:
            key = Ed25519PublicKey.from_public_bytes(base64.b64decode(each.key, validate=True))
            signature = base64.b64decode(each.signature, validate=True)
            key.verify(signature, kept.checkpoint.signed_bytes)
        except (InvalidSignature, ValueError, binascii.Error):
            detail = f"the signature by {each.key[:80]} is not one of this checkpoint"
            raise Corrupt("checkpoint", detail) from None
    return tuple(each.key for each in kept.signatures)


def _spelt(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
