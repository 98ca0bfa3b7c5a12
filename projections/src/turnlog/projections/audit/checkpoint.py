"""Signed checkpoints: the head of every session of a tenant at one point in time.

A checkpoint is signed and kept outside the log. Compared with the log later, it shows what no chain
can show: a log that was cut, rolled back or rewritten. It proves nothing about later events, nor
about records that were already false when it was taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from turnlog.events.content import Digest
from turnlog.projections.audit.chain import End, Key, Noted
from turnlog.projections.window.request import canonical

_FORM = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
Hash = Annotated[Digest, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class HeadNoted(BaseModel):
    """The head of one session or one family of the library."""

    model_config = _FORM

    sequence: Annotated[int, Field(ge=1)]
    """Sequence of the last event, which is also the number of events."""
    hash: Hash
    """Digest of that event's stored bytes."""


class Checkpoint(BaseModel):
    """The signed content of a checkpoint."""

    model_config = _FORM

    format: Literal["turnlog-checkpoint/1"] = "turnlog-checkpoint/1"
    """Version of the format."""
    at: str
    """When it was taken, RFC 3339."""
    tenant: str
    """The owner of the sessions."""
    stream: str
    """The stream that stores them."""
    created: str
    """When the server created that stream."""
    end: int
    """The last stream sequence that was read."""
    sessions: dict[str, HeadNoted]
    """The head of each session, by id."""
    library: dict[str, HeadNoted]
    """The head of each family, by name."""

    @property
    def signed_bytes(self) -> bytes:
        """The bytes that are signed: JSON in UTF-8, sorted keys, no whitespace."""
        return canonical(self.model_dump(mode="json")).encode()

    def noted(self) -> dict[Key, Noted]:
        """Return the heads of the sessions, for comparison with their chains."""
        return _noted(self.tenant, self.sessions)

    def noted_library(self) -> dict[Key, Noted]:
        """Return the heads of the library's families."""
        return _noted(self.tenant, self.library)


class Signature(BaseModel):
    """A signature of a checkpoint."""

    model_config = _FORM

    algorithm: Literal["ed25519"] = "ed25519"
    """The signature algorithm."""
    key: str
    """The public key, its 32 bytes in base64."""
    signature: str
    """The signature, its 64 bytes in base64."""


class SignedCheckpoint(BaseModel):
    """A checkpoint with its signatures, as stored in a file."""

    model_config = _FORM

    checkpoint: Checkpoint
    """The signed content."""
    signatures: Annotated[tuple[Signature, ...], Field(min_length=1)]
    """At least one signature."""


def heads(ends: Mapping[Key, End]) -> dict[str, HeadNoted]:
    """Build checkpoint heads from the ends of chains."""
    return {
        session: HeadNoted(sequence=end.sequence, hash=end.hash)
        for (_, session), end in sorted(ends.items())
    }


def _noted(tenant: str, heads: Mapping[str, HeadNoted]) -> dict[Key, Noted]:
    return {(tenant, name): Noted(head.sequence, head.hash) for name, head in heads.items()}
