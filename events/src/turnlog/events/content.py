"""Content: texts of users and models, and results of tools, and what else holds words.

Every event that holds text has used this type since its first version. In a sealed session the
codec takes it out of the event, with the fields that are marked as `SEALED`, and puts all of them
into one box under a key of the turn. Where that key is punctured, an erased text stands in its
place, and an empty value in the place of each other field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, JsonValue, Tag

from turnlog.events.event_model import build_discriminator
from turnlog.events.storable_text import replace_unstorable_texts

Digest = str
"""`sha256:` or `hmac-sha256:` followed by 64 hexadecimal digits."""

KEYED_DIGEST: Final = "hmac-sha256:"
"""How the digest of a sealed text begins; who opens it has verified it."""

SHA256_PATTERN: Final = r"^sha256:[0-9a-f]{64}$"
"""Matches a digest that is not keyed."""

DIGEST_PATTERN: Final = r"^(hmac-)?sha256:[0-9a-f]{64}$"
"""Matches a digest, keyed or not."""


def compute_digest(data: str | bytes) -> Digest:
    """Return the SHA-256 digest of a text (as UTF-8) or of bytes."""
    raw = data.encode() if isinstance(data, str) else data
    return f"sha256:{sha256(raw).hexdigest()}"


def is_keyed(digest: Digest) -> bool:
    """Return whether a digest is keyed, as that of a sealed text is."""
    return digest.startswith(KEYED_DIGEST)


def has_digest(text: str | bytes, digest: Digest) -> bool:
    """Return whether a text that was read by its digest has it; a keyed one was verified then."""
    return is_keyed(digest) or compute_digest(text) == digest


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


@dataclass(frozen=True, slots=True)
class SealedField:
    """The mark of a field of an event that holds words of people or models, beside `Content`."""


SEALED: Final = SealedField()

Words = Annotated[str, SEALED]
"""A text that is sealed with the event."""

WordList = Annotated[tuple[str, ...], SEALED]
"""Texts that are."""

WordValues = Annotated[dict[str, JsonValue], SEALED]
"""Values that are."""

WordDigest = Annotated[Digest, SEALED]
"""A digest of words that is, because a short text can be guessed from it."""


@dataclass(frozen=True, slots=True)
class PersonField:
    """The mark of a field of an event that holds the name of a person."""


PersonName = Annotated[str, PersonField()]
"""The name of a person, in whose place a sealed event has a pseudonym in the clear."""


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
    """Encrypted text, a box of its own; no release writes one, since an event has one box."""

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
    """Digest of the sealed text before erasure; empty where the session is sealed by the event."""
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
