"""Keys that are derived from the root key of an installation, one for each purpose.

HKDF (RFC 5869) with SHA-256, for one block: from a derived key neither the root key nor a key of
another purpose follows.
"""

from __future__ import annotations

import hmac
from typing import Final

from pydantic import SecretStr

_SALT: Final = b"turnlog root key"


def derive_key(root_key: SecretStr, purpose: str) -> bytes:
    """Return the 32 bytes of a key; `purpose` names what it is for, and nothing else uses it."""
    extracted = hmac.digest(_SALT, root_key.get_secret_value().encode(), "sha256")
    return hmac.digest(extracted, purpose.encode() + b"\x01", "sha256")
