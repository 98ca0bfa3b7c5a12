"""What a bundle is: sessions as they are stored, the blobs they name, and a list of both.

A bundle is a folder, or a zip of one. Its events are the stored bytes, a line each, so that the
chain can be checked by anyone; where each lay in the stream is not written down, since every batch
says it of the one before. What a rule withheld was never in an event; a reply that was redacted
after it was said stands in its `turn-completed`, since the chain runs over its bytes.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from turnlog.events.content import Digest
from turnlog.events.ids import checked_id

LISTED: Final = "manifest.json"
VERIFIER: Final = "verify.py"
READ_FIRST: Final = "README.md"
CHECKPOINT: Final = "checkpoint.json"


class Unreadable(BaseModel):
    """An event that could not be decoded; its bytes are in the bundle all the same."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    number: int
    """Which line of its session it is, from 1."""
    detail: str
    """What is wrong with it."""


class Bundled(BaseModel):
    """A session in a bundle."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    session: str
    events: int
    """How many there were."""
    head: Digest
    """Digest of the stored bytes of the last one."""
    unread: tuple[Unreadable, ...] = ()
    """Those that could not be decoded."""


class BundleList(BaseModel):
    """What is in a bundle; the file `manifest.json`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: Literal["turnlog-bundle/1"] = "turnlog-bundle/1"
    made_at: str
    """RFC 3339."""
    made_by: str
    """`turnlog 0.1.0`."""
    tenant: str
    sessions: tuple[Bundled, ...]
    blobs: tuple[Digest, ...]

    def written(self) -> bytes:
        """Give the file."""
        return self.model_dump_json(indent=2).encode() + b"\n"


def session_file(session: str) -> str:
    """Name the file of a session's events."""
    return f"sessions/{checked_id(session, 'session')}.ndjson"


def blob_file(digest: Digest) -> str:
    """Name the file of a blob."""
    return f"blobs/{digest.replace(':', '-')}"
