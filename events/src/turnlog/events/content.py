"""Content: what people and models said, and what tools returned.

The type stands in the first version of every event that holds text, so that text can later be
sealed under a key of its turn and erased by destroying that key, while the event keeps its
shape, its digest and its length. Only the codec opens or seals; nothing else looks inside.
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
    """Digest a text (as UTF-8) or bytes."""
    raw = data.encode() if isinstance(data, str) else data
    return f"sha256:{sha256(raw).hexdigest()}"


def digest_of_all(pieces: Iterable[bytes]) -> Digest:
    """Digest bytes that stand one behind the other, without ever holding them as one."""
    whole = sha256()
    for piece in pieces:
        whole.update(piece)
    return f"sha256:{whole.hexdigest()}"


class Plain(BaseModel):
    """Text as it was said."""

    model_config = ConfigDict(frozen=True)

    text: str
    """The text itself."""

    @property
    def digest(self) -> Digest:
        """Digest of the text."""
        return digest_of(self.text)

    @property
    def characters(self) -> int:
        """Length in code points."""
        return len(self.text)


class Sealed(BaseModel):
    """Text under a key; who holds the key can open it."""

    model_config = ConfigDict(frozen=True)

    sealed: str
    """Ciphertext, base64."""
    key: str
    """Name of the key, one a turn."""
    digest: Digest
    """HMAC of the text under that key, so that erasing the key leaves nothing to guess."""
    characters: int
    """Length of the text in code points."""


class Erased(BaseModel):
    """Text whose key is gone; that it was there, and how long, remains."""

    model_config = ConfigDict(frozen=True)

    erased: Literal[True]
    """Tells the form apart on the wire."""
    digest: Digest
    """What the sealed form carried."""
    characters: int
    """Length of the text in code points."""


Content = Annotated[
    Annotated[Plain, Tag("(text)")]
    | Annotated[Sealed, Tag("(sealed)")]
    | Annotated[Erased, Tag("(erased)")],
    Discriminator(form_by("text", "sealed", "erased")),
]
