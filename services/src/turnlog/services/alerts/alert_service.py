"""The histories of alerts: the rules of a tenant, and what became of each of them.

The rules are in the library. What a rule found is appended to the history of its alert, by
compare-and-set on its own subjects: of several processes that found the same one records it, and
the others see that it is there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Never

from turnlog.events.codec import decode_alert_event
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.model.alert_events import (
    ALERT_RULES_FAMILY,
    AlertEvent,
    AlertRule,
    KnownAlertEvent,
)
from turnlog.events.store.ports import EventLog
from turnlog.events.subjects import ALERT_HISTORY
from turnlog.projections.alerts.alert_rules import (
    AlertCommandRecord,
    TenantAlertRules,
    create_alert_rules,
    decide_rule_removal,
    decide_rules,
    fold_alert_rules,
)
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.idempotent_commands import (
    CommandMetadata,
    IdempotentCommandHandler,
)
from turnlog.services.command_handling.tenant_histories import (
    LibraryParts,
    TenantHistory,
    TenantStates,
    create_last_event_handler,
)

EVALUATOR: Final = CommandMetadata("alerts")
"""The actor of what evaluations record."""


@dataclass(frozen=True, slots=True)
class RecordedAlert:
    """The last event of an alert."""

    head: ChainHead
    event: KnownAlertEvent
    at: str
    """When it was recorded, RFC 3339."""


def read_alert(recorded: RecordedEvent) -> RecordedAlert:
    """Return an event of an alert; raises `Corrupt` for another."""
    event = decode_alert_event(recorded)
    if not isinstance(event, AlertEvent):
        raise Corrupt(f"ALERTS, stream sequence {recorded.stream_sequence}", "it has no state")
    return RecordedAlert(recorded.head, event, recorded.envelope.time)


DecideAlert = Callable[[AlertEvent | None], Awaitable[KnownAlertEvent | None]]
"""Return the event to record after the last one of an alert, or None."""


@dataclass(frozen=True, slots=True)
class AlertRulesChange:
    """What a command did to the rules, also where it was carried out before."""

    rules: TenantAlertRules
    changed: tuple[str, ...]
    """The names of the rules that it set or removed."""


@dataclass
class AlertService:
    """The rules and the alerts of all tenants, for one process."""

    parts: LibraryParts
    alerts: EventLog
    """The log of alerts."""
    _rules: TenantHistory[TenantAlertRules, AlertCommandRecord] = field(init=False)
    _alerts: IdempotentCommandHandler[RecordedAlert, Never] = field(init=False)

    def __post_init__(self) -> None:
        self._rules = TenantHistory(
            parts=self.parts,
            family=ALERT_RULES_FAMILY,
            create=create_alert_rules,
            states=TenantStates[TenantAlertRules, AlertCommandRecord](
                create_alert_rules, fold_alert_rules
            ),
            log_name="alerts",
        )
        of_alerts = replace(self.parts, log=self.alerts)
        self._alerts = create_last_event_handler(of_alerts, read_alert, "alerts", ALERT_HISTORY)

    async def load_rules(self, tenant: str) -> TenantAlertRules:
        """Return the rules of a tenant as they are now."""
        return await self._rules.load_state(tenant)

    async def set_rules(
        self, caller: Caller, rules: Mapping[str, AlertRule], *, removes_others: bool
    ) -> AlertRulesChange:
        """Set rules, and remove all others if that is asked for."""
        outcome = await self._rules.handle(
            caller.tenant,
            lambda state: decide_rules(state, rules, removes_others=removes_others),
            caller.metadata,
            caller.command,
        )
        if outcome.record is not None:
            return AlertRulesChange(outcome.state, outcome.record.changed)
        after = fold_alert_rules(outcome.events, create_alert_rules(caller.tenant))
        return AlertRulesChange(outcome.state, (*after.by_name, *after.removed))

    async def remove_rule(self, caller: Caller, name: str) -> AlertRulesChange:
        """Remove a rule; its alert is cleared if it is raised."""
        outcome = await self._rules.handle(
            caller.tenant,
            lambda state: (decide_rule_removal(state, name),),
            caller.metadata,
            caller.command,
        )
        return AlertRulesChange(outcome.state, (name,))

    async def load_alert(self, tenant: str, name: str) -> RecordedAlert | None:
        """Return the last event of an alert, or None before the first."""
        return await self._alerts.load_state(tenant, name)

    async def list_latest(self, tenant: str, name: str, limit: int) -> Sequence[RecordedAlert]:
        """Return the latest events of an alert, the newest first, however many there are."""
        found = list[RecordedAlert]()
        last = await self.alerts.read_last_event(tenant, name)
        while last is not None and len(found) < limit:
            found.append(read_alert(last))
            # Each was appended alone, so it names the place of the one before it.
            before = last.envelope.prevstreamseq
            last = None
            if before is not None:
                (last,) = await self.alerts.read_events_at(tenant, [before])
        return found

    async def record_alert(
        self, tenant: str, name: str, decide: DecideAlert
    ) -> KnownAlertEvent | None:
        """Append what `decide` returns after the last event of an alert; return what was appended.

        It is asked again where another process was first, and where nothing is to be appended after
        an event that may not be the last one.
        """

        async def decide_events(state: RecordedAlert | None) -> Sequence[KnownAlertEvent]:
            event = await decide(state.event if state else None)
            return () if event is None else (event,)

        handled = await self._alerts.handle(tenant, name, decide_events, EVALUATOR)
        return handled.state.event if handled.events and handled.state else None
