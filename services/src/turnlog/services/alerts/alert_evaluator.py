"""Evaluates the alerts of all tenants once a minute, by the clock: a quiet hour raises alerts too.

Any number of processes may do so. Each change is appended behind the last event of its alert, so
one of them records it; and nothing is kept here that the next one would need.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import structlog

from turnlog.events.errors import Corrupt, TurnlogError
from turnlog.events.model.alert_events import (
    ALERT_RULES_FAMILY,
    AlertEvent,
    KnownAlertEvent,
)
from turnlog.events.store.ports import EventLog
from turnlog.projections.alerts.alert_evaluation import (
    AlertDecision,
    clear_alert,
    evaluate_alert,
)
from turnlog.projections.alerts.alert_measures import MEASURES
from turnlog.projections.alerts.alert_rules import StoredAlertRule
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.growth.alert_values import (
    AlertQuestion,
    list_alert_sessions,
    measure_alert,
)
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.services.alerts.alert_service import AlertService
from turnlog.services.integrity.projection_lag import measure_projection_lag
from turnlog.services.platform.clock import Clock

MAX_LAG: Final = 1_000
"""Events that the read models may lack; with more, figures of them would be those of another time.
"""

LAG_MEASURE: Final = "projector_lag"

_log = structlog.get_logger("turnlog.alerts")


@dataclass(kw_only=True)
class AlertEvaluator:
    """Evaluates all rules of all tenants."""

    log: EventLog
    """The log of sessions, which the read models follow."""
    store: ReadModelStore
    service: AlertService
    clock: Clock
    interval: float = 60.0
    """Seconds between two evaluations."""
    _settled_removals: dict[tuple[str, str], int] = field(
        default_factory=dict[tuple[str, str], int]
    )
    """Removed rules whose alerts are known to be over, by tenant and name: only saves reading them
    again.
    """

    async def run(self) -> None:
        """Evaluate once a minute; ends by cancellation."""
        while True:
            try:
                await prepare_schema(self.store)
                await self.evaluate_alerts()
            except TurnlogError as error:
                _log.warning("alerts-not-evaluated", detail=str(error))
            await asyncio.sleep(self.interval)

    async def evaluate_alerts(self) -> None:
        """Evaluate each rule of each tenant once, and record what changed.

        What cannot be read of one tenant holds up no other.
        """
        found = await self.service.parts.log.list_tenants(ALERT_RULES_FAMILY)
        for tenant in found:
            try:
                await self._evaluate_tenant(tenant)
            except TurnlogError as error:
                _log.warning("alerts-not-evaluated", tenant=tenant, detail=str(error))

    async def _evaluate_tenant(self, tenant: str) -> None:
        rules = await self.service.load_rules(tenant)
        for name, sequence in rules.removed.items():
            if self._settled_removals.get((tenant, name)) != sequence:
                await self._clear_removed(tenant, name)
                self._settled_removals[tenant, name] = sequence
        if not rules.by_name:
            return
        lag = await measure_projection_lag(self.log, self.store, tenant)
        for stored in rules.by_name.values():
            measure = stored.rule.measure
            is_known = measure in MEASURES
            if is_known and (measure == LAG_MEASURE or lag <= MAX_LAG):
                try:
                    await self._evaluate_rule(tenant, stored, lag)
                except Corrupt as error:  # Its own history, or what it measures, is damaged.
                    _log.error("alert-not-evaluated", alert=stored.name, detail=str(error))

    async def _clear_removed(self, tenant: str, name: str) -> None:
        at = self.clock()

        async def decide(latest: AlertEvent | None) -> KnownAlertEvent | None:
            cleared = clear_alert(latest, "rule-removed", at) if latest else None
            return None if cleared is None else cleared.build_event()

        self._log_change(await self.service.record_alert(tenant, name, decide))

    async def _evaluate_rule(self, tenant: str, stored: StoredAlertRule, lag: int) -> None:
        at = self.clock()
        question = AlertQuestion(tenant=tenant, rule=stored.rule, at=at)
        # Several processes may measure, each once in the interval.
        shortest = timedelta(seconds=self.interval / 2)
        is_lag = stored.rule.measure == LAG_MEASURE
        measured = float(lag) if is_lag else await self._measure(question)

        async def decide(latest: AlertEvent | None) -> KnownAlertEvent | None:
            decision = evaluate_alert(
                stored=stored, latest=latest, value=measured, at=at, shortest=shortest
            )
            return None if decision is None else await self._build_event(decision, question)

        self._log_change(await self.service.record_alert(tenant, stored.name, decide))

    async def _measure(self, question: AlertQuestion) -> float | None:
        async with self.store.open_reader() as connection:
            return await measure_alert(connection, question)

    async def _build_event(
        self, decision: AlertDecision, question: AlertQuestion
    ) -> KnownAlertEvent:
        if not decision.names_sessions:
            return decision.build_event()
        async with self.store.open_reader() as connection:
            return decision.build_event(await list_alert_sessions(connection, question))

    def _log_change(self, event: KnownAlertEvent | None) -> None:
        if event is not None:
            _log.info(
                "alert-changed", alert=event.name, status=event.state.status, value=event.value
            )
