"""The public keys of an issuer: which keys of its JSON Web Key Set may verify what.

A key decides its algorithms, never a token: an RSA key verifies RSA signatures, a curve its own.
Symmetric keys, keys for encryption, private keys, and weak or unknown ones are passed over, because
an issuer may publish keys that are not meant for us.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.exceptions import InvalidKeyError
from pydantic import JsonValue

from turnlog.projections.blueprint.bounded_json import InvalidJson, parse_json

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey

MAX_KEYS: Final = 100
"""Keys of a set; an issuer has a few."""

_RSA_BITS: Final = range(2048, 8193)
"""Sizes of RSA keys: a smaller one can be factored, a larger one costs milliseconds a token."""

_RSA_ALGORITHMS: Final = frozenset(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"))

_CURVE_ALGORITHMS: Final[Mapping[tuple[str, str], str]] = {
    ("EC", "P-256"): "ES256",
    ("EC", "P-384"): "ES384",
    ("OKP", "Ed25519"): "EdDSA",
}

_ALGORITHM_NAMES: Final[Mapping[str, str]] = {"Ed25519": "EdDSA"}
"""Newer names of algorithms."""


class InvalidKeySet(ValueError):
    """What an issuer sent is no key set; the message repeats none of it."""


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key that may verify tokens."""

    key_id: str | None
    algorithms: frozenset[str]
    thumbprint: str
    """What identifies the key: its public members, in canonical form."""
    key: PublicKey


def parse_key_set(raw: bytes) -> tuple[VerificationKey, ...]:
    """Return the usable keys of a set; raises `InvalidKeySet`."""
    try:
        document = parse_json(raw, as_written=True)
    except InvalidJson as error:
        raise InvalidKeySet(str(error)) from None
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise InvalidKeySet("it has no list of keys")
    if len(entries) > MAX_KEYS:
        raise InvalidKeySet(f"it has more than {MAX_KEYS} keys")
    keys = (_read_key(entry) for entry in entries if isinstance(entry, dict))
    # An issuer that lists a key twice has it once.
    unique = {(key.key_id, key.thumbprint): key for key in keys if key is not None}
    return tuple(unique.values())


def choose_key(
    keys: Sequence[VerificationKey], key_id: str | None, algorithm: str
) -> VerificationKey | None:
    """Return the one key that a token names; None if none does, or several do.

    A token without a key's id is verified by the only key that fits.
    """
    named = [key for key in keys if key_id is None or key.key_id == key_id]
    fitting = [key for key in named if algorithm in key.algorithms]
    return fitting[0] if len(fitting) == 1 else None


def has_key_id(keys: Sequence[VerificationKey], key_id: str | None) -> bool:
    """Return whether a key has this id; any key will do for a token that names none."""
    return any(key_id is None or key.key_id == key_id for key in keys)


def _read_key(entry: Mapping[str, JsonValue]) -> VerificationKey | None:
    key_id, use = entry.get("kid"), entry.get("use", "sig")
    operations = entry.get("key_ops", ["verify"])
    if use != "sig" or not isinstance(operations, list) or "verify" not in operations:
        return None
    # A private key that is published verifies nothing any more.
    if not isinstance(key_id, str | None) or "d" in entry:
        return None
    algorithms = _find_algorithms(entry)
    key = _load_public_key(entry) if algorithms else None
    if key is None or (isinstance(key, RSAPublicKey) and key.key_size not in _RSA_BITS):
        return None
    public = {name: entry.get(name) for name in ("kty", "crv", "x", "y", "n", "e")}
    return VerificationKey(key_id, algorithms, json.dumps(public, sort_keys=True), key)


def _find_algorithms(entry: Mapping[str, JsonValue]) -> frozenset[str]:
    """Return what a key may verify, by its kind and by what its issuer limits it to."""
    kind, curve, limit = entry.get("kty"), entry.get("crv"), entry.get("alg")
    if kind == "RSA":
        possible = _RSA_ALGORITHMS
    else:
        of_curve = _CURVE_ALGORITHMS.get((str(kind), str(curve)))
        possible = frozenset((of_curve,) if of_curve else ())
    if limit is None:
        return possible
    return possible & {_ALGORITHM_NAMES.get(str(limit), str(limit))}


def _load_public_key(entry: Mapping[str, JsonValue]) -> PublicKey | None:
    loaders = {"RSA": RSAAlgorithm.from_jwk, "EC": ECAlgorithm.from_jwk}
    load = loaders.get(str(entry["kty"]), OKPAlgorithm.from_jwk)
    try:
        return cast("PublicKey", load(dict(entry)))
    except (InvalidKeyError, ValueError, TypeError, OverflowError):
        return None
