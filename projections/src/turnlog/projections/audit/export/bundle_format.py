"""The bundle format: stored sessions, the blobs they name, and a manifest of both.

A bundle is a folder or a zip file of one. Events are the stored bytes, one per line, so that anyone
can check the chain. Stream sequences are not listed; each batch states that of the one before. Text
that a rule withheld before publication is in no event; a reply that was redacted later is still in
its `turn-completed` event, since the chain covers its bytes.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from turnlog.events.content import Digest
from turnlog.events.ids import ID_PATTERN, validate_id

MANIFEST_FILE: Final = "manifest.json"

VERIFIER_FILE: Final = "verify.py"

README_FILE: Final = "README.md"

CHECKPOINT_FILE: Final = "checkpoint.json"


class UndecodableLine(BaseModel):
    """An event that could not be decoded; the bundle contains its bytes nevertheless."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    number: int
    """Line number in the session's file, from 1."""
    detail: str
    """What is wrong with it."""


class BundledSession(BaseModel):
    """A session in a bundle."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    session: str
    events: int
    """Number of events."""
    head: Digest
    """Digest of the stored bytes of the last event."""
    unread: tuple[UndecodableLine, ...] = ()
    """The events that could not be decoded."""
    keys: Annotated[dict[int, str], Field(exclude_if=lambda keys: not keys)] = {}
    """The key of the box of each sealed event, by its line; those of the same leaves share it."""


class BundleManifest(BaseModel):
    """The manifest of a bundle, in the file `manifest.json`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: Literal["turnlog-bundle/1"] = "turnlog-bundle/1"
    made_at: str
    """RFC 3339."""
    made_by: str
    """`turnlog 0.1.0`."""
    tenant: str
    sessions: tuple[BundledSession, ...]
    blobs: tuple[Digest, ...]
    blob_keys: Annotated[dict[Digest, str], Field(exclude_if=lambda keys: not keys)] = {}
    """The key of the digest of each blob that was sealed; the blobs here are not."""
    source_erasures: Annotated[tuple[str, ...], Field(exclude_if=lambda events: not events)] = ()
    """The stored events that began an erasure in the library, where some of these sessions had what
    was erased. Their history is no part of the bundle.
    """

    def encode_json(self) -> bytes:
        """Return the manifest as the bytes of its file."""
        return self.model_dump_json(indent=2).encode() + b"\n"


def build_session_path(session: str) -> str:
    """Return the path of a session's events."""
    return f"sessions/{validate_id(session, 'session')}.ndjson"


def build_blob_path(digest: Digest) -> str:
    """Return the path of a blob."""
    return f"blobs/{digest.replace(':', '-')}"


BUNDLE_FILE_FORM: Final = re.compile(
    "|".join(
        (
            *map(re.escape, (MANIFEST_FILE, CHECKPOINT_FILE, README_FILE, VERIFIER_FILE)),
            rf"sessions/{ID_PATTERN}\.ndjson",
            "blobs/(?:hmac-)?sha256-[0-9a-f]{64}",
        )
    )
)
"""The path of any file that a bundle may have."""
