"""What projectors of library histories need beside their rows: a checked start, and texts."""

from __future__ import annotations

from typing import Protocol

import structlog

from turnlog.events.content import Digest
from turnlog.events.errors import Corrupt, KeysErased, LaterRelease
from turnlog.events.store.ports import BlobStore, EventLog
from turnlog.services.integrity.row_rollback_check import FoldedPosition, verify_log

_log = structlog.get_logger("turnlog.projector")


class VersionedPosition(FoldedPosition, Protocol):
    """How far rows are folded, and by which version of their rules."""

    @property
    def version(self) -> int:
        """The version."""
        ...


async def verify_library_position(
    log: EventLog,
    tenant: str,
    before: VersionedPosition,
    newest: int,
    *,
    what: str,
    seconds: float,
) -> None:
    """Raise `Corrupt` unless rows come from this stream, and from no later release.

    `tenant` is any tenant of the stream; `newest` is the version that this release writes of `what`
    it is. The log must be too short for `seconds` to count as rolled back.
    """
    if before.version > newest:
        detail = f"{what} of version {before.version}, this release knows {newest}"
        raise LaterRelease("read models", f"{detail}: run the later one")
    await verify_log(log, tenant, before, seconds=seconds)


async def load_library_text(
    blobs: BlobStore, tenant: str, digest: Digest, *, missing: str
) -> str | None:
    """Return a text; None for one that was erased, or after an error named `missing` was logged."""
    try:
        return (await blobs.get_blob(tenant, digest)).decode()
    except KeysErased:
        return None
    except Corrupt as error:
        _log.error(missing, tenant=tenant, digest=digest, reason=str(error))
        return None
