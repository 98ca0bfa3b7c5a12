"""Checkpoints: where every session of a tenant ended at some moment, to be signed and kept aside.

Held against the log later, it shows what no chain can: that an end was cut off, that a log was
rolled back, or that a history was written anew. It proves nothing about what came after it, and
nothing about what was already untrue when it was taken.
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
    """Where one session, or one family of the library, ended."""

    model_config = _FORM

    sequence: Annotated[int, Field(ge=1)]
    """Its last event, and how many it had."""
    hash: Hash
    """Digest of that event's stored bytes."""


class Checkpoint(BaseModel):
    """What is signed."""

    model_config = _FORM

    format: Literal["turnlog-checkpoint/1"] = "turnlog-checkpoint/1"
    """Tells the form apart."""
    at: str
    """When it was taken, RFC 3339."""
    tenant: str
    """Whose sessions."""
    stream: str
    """The stream they lie in."""
    created: str
    """When that stream was made, by its server."""
    end: int
    """The last place of the stream that was read."""
    sessions: dict[str, HeadNoted]
    """By session."""
    library: dict[str, HeadNoted]
    """By family."""

    @property
    def signed_bytes(self) -> bytes:
        """Give what is signed: JSON, keys sorted, no blanks, UTF-8."""
        return canonical(self.model_dump(mode="json")).encode()

    def noted(self) -> dict[Key, Noted]:
        """Give the heads of the sessions, to hold chains against."""
        return _noted(self.tenant, self.sessions)

    def noted_library(self) -> dict[Key, Noted]:
        """Give the heads of the library's families."""
        return _noted(self.tenant, self.library)


class Signature(BaseModel):
    """A signature of a checkpoint."""

    model_config = _FORM

    algorithm: Literal["ed25519"] = "ed25519"
    """How it was made."""
    key: str
    """The public key, its 32 bytes in base64."""
    signature: str
    """The signature, its 64 bytes in base64."""


class SignedCheckpoint(BaseModel):
    """A checkpoint as it is kept in a file."""

    model_config = _FORM

    checkpoint: Checkpoint
    """What was signed."""
    signatures: Annotated[tuple[Signature, ...], Field(min_length=1)]
    """By whom."""


def heads(ends: Mapping[Key, End]) -> dict[str, HeadNoted]:
    """Note where chains end."""
    return {
        session: HeadNoted(sequence=end.sequence, hash=end.hash)
        for (_, session), end in sorted(ends.items())
    }


def _noted(tenant: str, heads: Mapping[str, HeadNoted]) -> dict[Key, Noted]:
    return {(tenant, name): Noted(head.sequence, head.hash) for name, head in heads.items()}
