from __future__ import annotations

import time

from structlog.testing import capture_logs

from turnlog.events.errors import Unavailable
from turnlog.services.projector.projector_outages import QUIET_SECONDS, OutageLog

AWAY = Unavailable("database", "connection refused")


def test_outage_is_logged_immediately_and_then_with_increasing_gaps() -> None:
    outage = OutageLog()
    with capture_logs() as lines:
        for _ in range(100):
            outage.record_failure(AWAY)
    assert [line["failures"] for line in lines] == [1, 2, 4, 8, 16, 32, 64]
    assert {(line["event"], line["what"], line["detail"]) for line in lines} == {
        ("projector-waiting", "database", "connection refused")
    }


def test_next_outage_is_logged_immediately() -> None:
    outage = OutageLog()
    with capture_logs() as lines:
        for _ in range(3):
            outage.record_failure(AWAY)
        outage.record_success()
        outage.record_failure(AWAY)
    assert [line["failures"] for line in lines] == [1, 2, 1]


def test_failure_after_a_quiet_period_starts_a_new_outage() -> None:
    outage = OutageLog(failures=2, failed_at=time.monotonic() - QUIET_SECONDS - 1)
    with capture_logs() as lines:
        outage.record_failure(AWAY)
    assert [line["failures"] for line in lines] == [1]
