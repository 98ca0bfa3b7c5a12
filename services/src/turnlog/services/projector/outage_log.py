"""How a projector reports that it waits: at once, and then less and less often.

It tries again about twice a second, for as long as the database or NATS is away. A line for each
try would bury all others.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Final

import structlog

from turnlog.events.errors import Unavailable

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
                "projector-waits", what=error.what, detail=error.detail, failures=self.failures
            )

    def record_success(self) -> None:
        """End the outage."""
        self.failures = 0
