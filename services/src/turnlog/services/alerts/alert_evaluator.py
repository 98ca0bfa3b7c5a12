"""Evaluates the alerts of a tenant once a minute, by the clock: a quiet hour raises alerts too.

Any number of processes may do so. Each change is appended behind the last event of its alert, so
one of them records it; and nothing is kept here that the next one would need.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import structlog

from turnlog.events.errors import Corrupt, Unavailable
from turnlog.events.model.alert_events import AlertEvent, KnownAlertEvent
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
from turnlog.services.platform.clock import Clock
from turnlog.services.platform.projection_lag import measure_projection_lag

MAX_LAG: Final = 1_000
"""Events that the read models may lack; with more, figures of them would be those of another time.
"""

LAG_MEASURE: Final = "projector_lag"

_log = structlog.get_logger("turnlog.alerts")


@dataclass(kw_only=True)
class AlertEvaluator:
    """Evaluates all rules of a tenant."""

    tenant: str
    log: EventLog
    """The log of sessions, which the read models follow."""
    store: ReadModelStore
    service: AlertService
    clock: Clock
    interval: float = 60.0
    """Seconds between two evaluations."""
    _settled_removals: dict[str, int] = field(default_factory=dict[str, int])
    """Removed rules whose alerts are known to be over: only saves reading them again."""

    async def run(self) -> None:
        """Evaluate once a minute; ends by cancellation."""
        while True:
            try:
                await prepare_schema(self.store)
                await self.evaluate_alerts()
            except Unavailable as error:
                _log.warning("alerts-not-evaluated", what=error.what, detail=error.detail)
            except Corrupt as error:
                _log.error("alerts-not-evaluated", what=error.where, detail=error.detail)
            await asyncio.sleep(self.interval)

    async def evaluate_alerts(self) -> None:
        """Evaluate each rule once, and record what changed.

        Raises `Unavailable` and `Corrupt` where rules or read models cannot be read.
        """
        rules = await self.service.load_rules(self.tenant)
        for name, sequence in rules.removed.items():
            if self._settled_removals.get(name) != sequence:
                await self._clear_removed(name)
                self._settled_removals[name] = sequence
        if not rules.by_name:
            return
        lag = await measure_projection_lag(self.log, self.store, self.tenant)
        for stored in rules.by_name.values():
            measure = stored.rule.measure
            is_known = measure in MEASURES
            if is_known and (measure == LAG_MEASURE or lag <= MAX_LAG):
                await self._evaluate_rule(stored, lag)

    async def _clear_removed(self, name: str) -> None:
        at = self.clock()

        async def decide(latest: AlertEvent | None) -> KnownAlertEvent | None:
            cleared = clear_alert(latest, "rule-removed", at) if latest else None
            return None if cleared is None else cleared.build_event()

        self._log_change(await self.service.record_alert(self.tenant, name, decide))

    async def _evaluate_rule(self, stored: StoredAlertRule, lag: int) -> None:
        at = self.clock()
        question = AlertQuestion(tenant=self.tenant, rule=stored.rule, at=at)
        # Several processes may measure, each once in the interval.
        shortest = timedelta(seconds=self.interval / 2)
        is_lag = stored.rule.measure == LAG_MEASURE
        measured = float(lag) if is_lag else await self._measure(question)

        async def decide(latest: AlertEvent | None) -> KnownAlertEvent | None:
            decision = evaluate_alert(
                stored=stored, latest=latest, value=measured, at=at, shortest=shortest
            )
            return None if decision is None else await self._build_event(decision, question)

        self._log_change(await self.service.record_alert(self.tenant, stored.name, decide))

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
