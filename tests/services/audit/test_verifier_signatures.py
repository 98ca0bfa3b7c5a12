"""The verifier's own Ed25519, against the RFC 8032 vectors and against a library."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from turnlog.services.audit.checkpoint_signatures import load_or_create_key
from turnlog.services.bundle.ed25519_signatures import ORDER, PRIME, is_signed

VECTORS = {
    "nothing": (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        (
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555"
            "fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
        ),
    ),
    "a byte": (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        (
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da0"
            "85ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
        ),
    ),
    "two bytes": (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        (
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac1"
            "8ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
        ),
    ),
}


@pytest.mark.parametrize("vector", VECTORS.values(), ids=VECTORS)
def test_rfc_8032_signatures_verify_and_altered_ones_do_not(
    vector: tuple[str, str, str],
) -> None:
    key, message, signature = map(bytes.fromhex, vector)
    assert is_signed(message, signature, key)
    assert not is_signed(message + b"x", signature, key)
    for place in (0, 31, 32, 50):
        altered = bytearray(signature)
        altered[place] ^= 1
        assert not is_signed(message, bytes(altered), key)


def test_library_signature_verifies_with_its_own_key_only() -> None:
    keys = [Ed25519PrivateKey.generate() for _ in range(2)]
    mine, other = (key.public_key().public_bytes_raw() for key in keys)
    message = os.urandom(1_000)
    signature = keys[0].sign(message)
    assert is_signed(message, signature, mine)
    assert not is_signed(message, signature, other)


def test_malformed_signatures_and_keys_are_rejected_without_an_exception() -> None:
    key, message, signature = map(bytes.fromhex, VECTORS["a byte"])
    scalar = int.from_bytes(signature[32:], "little")
    grown = signature[:32] + (scalar + ORDER).to_bytes(32, "little")
    assert not is_signed(message, grown, key), "the same signature has one form only"
    for wrong in (b"", signature[:-1], signature + b"\0", bytes(64), b"\xff" * 64):
        assert not is_signed(message, wrong, key)
    for nobody in (
        b"",
        key[:-1],
        PRIME.to_bytes(32, "little"),
        b"\xff" * 32,
        (2).to_bytes(32, "little"),
    ):
        assert not is_signed(message, signature, nobody)


def test_concurrent_first_callers_share_one_created_key(tmp_path: Path) -> None:
    file = tmp_path / "new" / "key.pem"
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(load_or_create_key, [file] * 8))
    assert len({key.public_key().public_bytes_raw() for key in keys}) == 1
    assert [each.name for each in file.parent.iterdir()] == ["key.pem"], "nothing is left beside it"
    assert file.stat().st_mode & 0o777 == 0o600
