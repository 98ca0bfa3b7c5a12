"""The rounds of a projector, without end, and what it logs while something is out of reach.

A projector waits for what cannot be reached, and tries again about twice a second, for as long as
the database or NATS is away. It reports that at once, and then less and less often: a line for each
try would bury all others. It ends if the stream does not match its rows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import structlog

from turnlog.events.errors import Corrupt, Unavailable
from turnlog.events.jetstream.nats_connection import wait_backoff

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
