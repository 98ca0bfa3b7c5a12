"""Keyrings: the keys that the keys of sessions are wrapped under, outside of the store.

A keyring has a key for each generation. That of a tenant follows from it, so that a new tenant
needs no new entry. The keys of a session are wrapped with AES-KW (RFC 5649) under the key of its
tenant in the newest generation.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from cryptography.hazmat.primitives.keywrap import (
    InvalidUnwrap,
    aes_key_unwrap_with_padding,
    aes_key_wrap_with_padding,
)

from turnlog.events.errors import Corrupt

_LINE: Final = re.compile(r"([1-9][0-9]{0,8})\s+([0-9a-f]{64})")


class KeyringUnfit(Corrupt):
    """The keyring of this process is not the one that these keys were wrapped under."""


@dataclass(frozen=True, slots=True)
class WrappedKeys:
    """The keys of a session, wrapped."""

    generation: int
    """The generation that they are wrapped under."""
    wrapped: bytes


class SealKeyring(Protocol):
    """Wraps the keys of sessions.

    A keyring whose keys are elsewhere requests them there: each of these raises `Unavailable` while
    that does not answer.
    """

    async def find_generation(self) -> int:
        """Return the newest generation that this keyring knows of."""
        ...

    async def wrap_keys(self, tenant: str, keys: bytes) -> WrappedKeys:
        """Return keys wrapped under the key of a tenant in the newest generation."""
        ...

    async def unwrap_keys(self, tenant: str, keys: WrappedKeys) -> bytes:
        """Return what was wrapped; raises `KeyringUnfit` where this keyring cannot."""
        ...


@dataclass(frozen=True, slots=True)
class StaticKeyring:
    """A keyring whose keys are in the memory of the process."""

    keys: Mapping[int, bytes] = field(repr=False)
    """Key by generation."""

    async def find_generation(self) -> int:
        """See `SealKeyring.find_generation`."""
        return max(self.keys)

    async def wrap_keys(self, tenant: str, keys: bytes) -> WrappedKeys:
        """See `SealKeyring.wrap_keys`."""
        newest = max(self.keys)
        key = self._derive_tenant_key(tenant, newest)
        return WrappedKeys(newest, aes_key_wrap_with_padding(key, keys))

    async def unwrap_keys(self, tenant: str, keys: WrappedKeys) -> bytes:
        """See `SealKeyring.unwrap_keys`."""
        key = self._derive_tenant_key(tenant, keys.generation)
        try:
            return aes_key_unwrap_with_padding(key, keys.wrapped)
        except InvalidUnwrap:
            which = f"generation {keys.generation}"
            detail = f"its {which} has another key than this record was made with"
            raise KeyringUnfit("keyring", detail) from None

    def _derive_tenant_key(self, tenant: str, generation: int) -> bytes:
        if generation not in self.keys:
            raise KeyringUnfit("keyring", f"it has no generation {generation}")
        return hmac.digest(self.keys[generation], b"turnlog tenant " + tenant.encode(), "sha256")


def parse_keyring(text: str) -> StaticKeyring:
    """Return the keyring of a file: a generation and 64 hexadecimal digits in each line.

    Empty lines and those that begin with `#` say nothing. Raises `ValueError`.
    """
    keys: dict[int, bytes] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line.strip())
        if found is None:
            raise ValueError(f"line {number} is not a generation and 64 hexadecimal digits")
        if int(found[1]) in keys:
            raise ValueError(f"line {number} has a generation that an earlier line has")
        keys[int(found[1])] = bytes.fromhex(found[2])
    if not keys:
        raise ValueError("it has no key")
    return StaticKeyring(keys)
