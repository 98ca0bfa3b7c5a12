"""Whether this process can work: log and database answer, and the rows are of this log.

A message of the record that is known to be lost is reported in the part `record`, and sessions with
an event that cannot be read or folded in the part `sessions`: each stops its own session, and the
process stays ready for the others. The answer also has the durability level in
force, which is what an acknowledgement guarantees, and the lag of the read models.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from turnlog.events.store.ports import EventLog
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.write.projection_positions import read_active_position
from turnlog.services.api.service_payloads import ComponentHealth, ReadinessView
from turnlog.services.integrity.projection_lag import measure_projection_lag
from turnlog.services.integrity.stopped_rows import require_sound_sessions
from turnlog.services.knowledge.index_service import require_sound_index
from turnlog.services.platform.durability import Durability
from turnlog.services.platform.process_health import (
    PROBE_SESSION,
    HealthCheck,
    HealthChecks,
    find_failure,
    is_ready,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Checks everything that this process depends on."""

    log: EventLog
    store: ReadModelStore
    durability: Durability
    shutdown_event: asyncio.Event
    """A process that shuts down is not ready."""
    health_checks: HealthChecks = field(default_factory=dict[str, HealthCheck])
    """What is checked of this process beside NATS, the database and the read models."""

    async def check_components(self, tenant: str) -> ReadinessView:
        """Check all components and return their health, the durability level and the lag."""
        behind: list[int] = []

        async def measure() -> None:
            behind.append(await measure_projection_lag(self.log, self.store, tenant))

        checks = {
            "nats": self.log.read_last_event(tenant, PROBE_SESSION, leader=True),
            "database": self._check_database(),
            "read_models": measure(),
            "sessions": require_sound_sessions(self.store, tenant),
            "knowledge": require_sound_index(self.store),
            **{name: check() for name, check in self.health_checks.items()},
        }
        found = await asyncio.gather(*(find_failure(check) for check in checks.values()))
        failures = dict(zip(checks, found, strict=True))
        return ReadinessView(
            ready=is_ready(failures) and not self.shutdown_event.is_set(),
            durability=self.durability.level,
            checked=self.durability.checked,
            lag=behind[0] if behind else None,
            parts={
                name: ComponentHealth(ready=failure is None, detail=failure)
                for name, failure in failures.items()
            },
        )

    async def _check_database(self) -> None:
        async with self.store.open_reader() as connection:
            await read_active_position(connection)
