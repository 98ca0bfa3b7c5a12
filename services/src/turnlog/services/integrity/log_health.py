"""What readiness asks about the log: whether it is the known one, takes writes and is whole."""

from __future__ import annotations

from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.services.integrity.log_guard import LogGuard
from turnlog.services.integrity.record_watch import RecordWatch
from turnlog.services.integrity.space_check import create_space_check
from turnlog.services.platform.process_health import HealthCheck
from turnlog.services.platform.process_settings import ProcessSettings


def create_log_checks(
    connection: NatsConnection, settings: ProcessSettings, guard: LogGuard, record: RecordWatch
) -> dict[str, HealthCheck]:
    """Return the checks of a role that appends to the log."""
    space = create_space_check(connection, settings.tenant, settings.nats_monitor)
    return {
        "log": guard.require_current_log,
        "space": space.require_healthy,
        "record": record.check_record,
    }
