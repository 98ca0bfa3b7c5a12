"""Content: texts of users and models, and results of tools.

Every event that holds text has used this type since its first version. Text can therefore be sealed
later under a key per turn, and erased by destroying that key, while the event keeps its shape,
digest and length. Only the codec seals and opens content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, JsonValue, Tag

from turnlog.events.event_model import build_discriminator
from turnlog.events.storable_text import replace_unstorable_texts

Digest = str
"""`sha256:` or `hmac-sha256:` followed by 64 hexadecimal digits."""

SHA256_PATTERN: Final = r"^sha256:[0-9a-f]{64}$"
"""Matches a digest that is not keyed."""


def compute_digest(data: str | bytes) -> Digest:
    """Return the SHA-256 digest of a text (as UTF-8) or of bytes."""
    raw = data.encode() if isinstance(data, str) else data
    return f"sha256:{sha256(raw).hexdigest()}"


def compute_joined_digest(pieces: Iterable[bytes]) -> Digest:
    """Return the digest of concatenated bytes without joining them in memory."""
    hasher = sha256()
    for piece in pieces:
        hasher.update(piece)
    return f"sha256:{hasher.hexdigest()}"


_SALTED_TEXT: Final = re.compile(rb"turnlog-withheld [0-9a-f]{64}\n")


def encode_withheld_text(text: str, salt: bytes) -> bytes:
    """Return a blob of a withheld text, whose digest does not let a short text be guessed.

    `salt` is 32 bytes of chance; it is in the blob, and nowhere else.
    """
    return b"turnlog-withheld " + salt.hex().encode() + b"\n" + text.encode()


def decode_withheld_text(blob: bytes) -> str:
    """Return the text of such a blob; earlier releases stored the text alone."""
    return (
        _SALTED_TEXT.sub(b"", blob, count=1).decode() if _SALTED_TEXT.match(blob) else blob.decode()
    )


class PlainText(BaseModel):
    """Text that is not encrypted."""

    model_config = ConfigDict(frozen=True)

    text: str
    """The text."""

    @property
    def digest(self) -> Digest:
        """Digest of the text."""
        return compute_digest(self.text)

    @property
    def characters(self) -> int:
        """Length in code points."""
        return len(self.text)


class SealedText(BaseModel):
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


class ErasedText(BaseModel):
    """Text whose key was destroyed; its digest and length remain."""

    model_config = ConfigDict(frozen=True)

    erased: Literal[True]
    """Discriminates this member of the union on the wire."""
    digest: Digest
    """Digest of the sealed text before erasure."""
    characters: int
    """Length of the text in code points."""


Content = Annotated[
    Annotated[PlainText, Tag("(text)")]
    | Annotated[SealedText, Tag("(sealed)")]
    | Annotated[ErasedText, Tag("(erased)")],
    Discriminator(build_discriminator("text", "sealed", "erased")),
]


RECORDED_TEXTS: Final = (PlainText, SealedText, ErasedText)
"""The classes of a `Content`."""

_ENCODER: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def encode_canonical(value: JsonValue) -> str:
    """Return the canonical form of a value: JSON, keys sorted, no spaces."""
    return _ENCODER.encode(value)


def build_optional_text(text: str) -> PlainText | None:
    """Return a text as content; None if it is empty."""
    return PlainText(text=text) if text else None


def get_plain_text(content: Content | None) -> str | None:
    """Return a readable text; None if it is sealed, erased or absent."""
    return content.text if isinstance(content, PlainText) else None


def parse_structured_text(content: Content | None) -> JsonValue:
    """Return the value of a text that is JSON, such as a structured reply.

    None if the text is sealed, erased or absent, or if it is no JSON after all.
    """
    try:
        value: JsonValue = json.loads(
            get_plain_text(content) or "null", parse_constant=_refuse_constant
        )
        return replace_unstorable_texts(value)
    except (ValueError, RecursionError):
        return None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
