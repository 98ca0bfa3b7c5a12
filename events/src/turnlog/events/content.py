"""Content: texts of users and models, and results of tools.

Every event that holds text has used this type since its first version. Text can therefore be sealed
later under a key per turn, and erased by destroying that key, while the event keeps its shape,
digest and length. Only the codec seals and opens content.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Tag

from turnlog.events.forms import form_by

Digest = str
"""`sha256:` or `hmac-sha256:` followed by 64 hexadecimal digits."""


def digest_of(data: str | bytes) -> Digest:
    """Return the SHA-256 digest of a text (as UTF-8) or of bytes."""
    raw = data.encode() if isinstance(data, str) else data
    return f"sha256:{sha256(raw).hexdigest()}"


def digest_of_all(pieces: Iterable[bytes]) -> Digest:
    """Return the digest of concatenated bytes without joining them in memory."""
    whole = sha256()
    for piece in pieces:
        whole.update(piece)
    return f"sha256:{whole.hexdigest()}"


class Plain(BaseModel):
    """Text that is not encrypted."""

    model_config = ConfigDict(frozen=True)

    text: str
    """The text."""

    @property
    def digest(self) -> Digest:
        """Digest of the text."""
        return digest_of(self.text)

    @property
    def characters(self) -> int:
        """Length in code points."""
        return len(self.text)


class Sealed(BaseModel):
    """Encrypted text; the holder of the key can open it."""

    model_config = ConfigDict(frozen=True)

    sealed: str
    """Ciphertext, base64."""
    key: str
    """Name of the key; there is one key per turn."""
    digest: Digest
    """HMAC of the text under that key; it cannot be used to guess the text once the key is
    destroyed.
    """
    characters: int
    """Length of the text in code points."""


class Erased(BaseModel):
    """Text whose key was destroyed; its digest and length remain."""

    model_config = ConfigDict(frozen=True)

    erased: Literal[True]
    """Discriminates this member of the union on the wire."""
    digest: Digest
    """Digest of the sealed text before erasure."""
    characters: int
    """Length of the text in code points."""


Content = Annotated[
    Annotated[Plain, Tag("(text)")]
    | Annotated[Sealed, Tag("(sealed)")]
    | Annotated[Erased, Tag("(erased)")],
    Discriminator(form_by("text", "sealed", "erased")),
]
