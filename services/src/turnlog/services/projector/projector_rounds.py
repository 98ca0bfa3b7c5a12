"""What all projectors have in common: rounds without end, waits that are logged, and checks.

A projector waits for what cannot be reached, and tries again about twice a second, for as long as
the database or NATS is away. It reports that at once, and then less and less often: a line for each
try would bury all others. It ends if the stream does not match its rows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from turnlog.events.content import Digest
from turnlog.events.errors import Corrupt, LaterRelease, Unavailable
from turnlog.events.jetstream.nats_connection import wait_backoff
from turnlog.events.store.ports import BlobStore, EventLog
from turnlog.services.integrity.row_rollback_check import FoldedPosition, verify_log

QUIET_SECONDS: Final = 5.0
"""Seconds without a failure after which the next one begins another outage."""

_log = structlog.get_logger("turnlog.projector")


@dataclass(slots=True)
class OutageLog:
    """The failures in a row; the first, the second, the fourth, the eighth and so on are logged."""

    failures: int = 0
    failed_at: float = -math.inf

    def record_failure(self, error: Unavailable) -> None:
        """Count a failure, and log it if it is one of those."""
        now = time.monotonic()
        self.failures = 1 if now - self.failed_at > QUIET_SECONDS else self.failures + 1
        self.failed_at = now
        if self.failures.bit_count() == 1:
            _log.warning(
                "projector-waiting", what=error.what, detail=error.detail, failures=self.failures
            )

    def record_success(self) -> None:
        """End the outage."""
        self.failures = 0


async def run_rounds(run_round: Callable[[OutageLog], Awaitable[None]]) -> None:
    """Run one round after another; ends by cancellation, or with `Corrupt`."""
    outage = OutageLog()
    while True:
        try:
            await run_round(outage)
        except Unavailable as error:
            outage.record_failure(error)
        except Corrupt as error:
            _log.error("projector-stopped", where=error.where, detail=error.detail)
            raise
        await wait_backoff(outage.failures)


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
    """Return a text; without it, None after an error named `missing` was logged."""
    try:
        return (await blobs.get_blob(tenant, digest)).decode()
    except Corrupt as error:
        _log.error(missing, tenant=tenant, digest=digest, reason=str(error))
        return None
