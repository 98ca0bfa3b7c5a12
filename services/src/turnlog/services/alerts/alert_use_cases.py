"""Reading alerts and their history, and setting and removing their rules.

A command is an event. Evaluations see it within a minute; they are in the projector processes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from turnlog.contract.alert_payloads import (
    AlertChangeResult,
    AlertHistory,
    AlertHistoryEntry,
    AlertPage,
    AlertResult,
    AlertView,
    ApplyAlertsRequest,
    RaisedAlert,
)
from turnlog.events.model.alert_events import AlertCleared, AlertState
from turnlog.events.registry import format_event_name
from turnlog.projections.alerts.alert_rules import StoredAlertRule
from turnlog.projections.blueprint.storable_json import check_text
from turnlog.services.alerts.alert_service import AlertService, RecordedAlert
from turnlog.services.alerts.rule_forms import create_rules, format_rule, get_unit
from turnlog.services.command_handling.callers import Caller

MAX_HISTORY: Final = 200
"""Most events of one answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _RaisedAlerts:
    """What is raised after the last event of the rules, and the last one of the stream."""

    rules: int
    end: int
    alerts: tuple[RaisedAlert, ...]


@dataclass(frozen=True, slots=True)
class AlertUseCases:
    """Reads alerts and changes their rules."""

    service: AlertService
    _raised: dict[str, _RaisedAlerts] = field(default_factory=dict[str, "_RaisedAlerts"])
    """What was raised at the last look, by tenant."""

    async def list_alerts(self, tenant: str) -> AlertPage:
        """List the alerts with their state now."""
        found = await self.service.load_rules(tenant)
        views = [await self._load_view(tenant, rule) for _, rule in sorted(found.by_name.items())]
        return AlertPage(sequence=found.sequence, alerts=tuple(views))

    async def list_raised(self, tenant: str) -> tuple[RaisedAlert, ...]:
        """List what is raised or warns, the longest first.

        Alerts are read again only when an event was recorded, since whoever watches asks each
        second.
        """
        rules = (await self.service.load_rules(tenant)).sequence
        end = await self.service.alerts.get_last_stream_sequence(tenant) if rules else 0
        known = self._raised.get(tenant)
        if known is None or (known.rules, known.end) != (rules, end):
            known = _RaisedAlerts(rules=rules, end=end, alerts=await self._load_raised(tenant))
            self._raised[tenant] = known
        return known.alerts

    async def _load_raised(self, tenant: str) -> tuple[RaisedAlert, ...]:
        page = await self.list_alerts(tenant)
        shown = [each for each in page.alerts if each.status != "ok"]
        shown.sort(key=lambda each: (each.status != "raised", each.since or ""))
        return tuple(
            RaisedAlert(
                name=each.name,
                status=each.status,
                since=each.since or "",
                measure=each.rule.measure,
                unit=each.unit,
                value=each.value,
                threshold=each.rule.above if each.status == "raised" else each.rule.warn,
                window=each.rule.window,
                sessions=each.sessions,
            )
            for each in shown
        )

    async def show_alert(self, tenant: str, name: str) -> AlertResult:
        """Return an alert with its state now."""
        found = await self.service.load_rules(tenant)
        rule = found.get_rule(check_text(name, "name"))
        return AlertResult(sequence=found.sequence, alert=await self._load_view(tenant, rule))

    async def apply_alerts(self, caller: Caller, form: ApplyAlertsRequest) -> AlertChangeResult:
        """Set rules; raises `Refused` for a faulty one, and then sets none."""
        rules = create_rules(form.alerts)
        change = await self.service.set_rules(caller, rules, removes_others=form.remove_others)
        names = change.rules.by_name
        return AlertChangeResult(
            sequence=change.rules.sequence,
            changed=tuple(sorted(name for name in change.changed if name in names)),
            removed=tuple(sorted(name for name in change.changed if name not in names)),
            alerts=len(names),
        )

    async def remove_alert(self, caller: Caller, name: str) -> AlertChangeResult:
        """Remove a rule; its alert is cleared if it is raised."""
        change = await self.service.remove_rule(caller, check_text(name, "name"))
        return AlertChangeResult(
            sequence=change.rules.sequence,
            changed=(),
            removed=change.changed,
            alerts=len(change.rules.by_name),
        )

    async def load_history(self, tenant: str, name: str, limit: int) -> AlertHistory:
        """Return the latest events of an alert, the newest first, also of a removed one."""
        events = await self.service.list_latest(tenant, check_text(name, "name"), limit)
        if not events:
            (await self.service.load_rules(tenant)).get_rule(name)
        return AlertHistory(
            name=name,
            sequence=events[0].head.sequence if events else 0,
            events=tuple(map(_create_entry, events)),
            more=bool(events) and events[-1].head.sequence > 1,
        )

    async def _load_view(self, tenant: str, stored: StoredAlertRule) -> AlertView:
        found = await self.service.load_alert(tenant, stored.name)
        state = found.event.state if found else None
        is_current = state is not None and state.rule == stored.sequence
        # What is known of an earlier rule counts until it is cleared.
        counts = state is not None and (is_current or state.status != "ok")
        event = found.event if found and counts else None
        return AlertView.model_validate(
            {
                "name": stored.name,
                "rule": format_rule(stored.name, stored.rule),
                "unit": get_unit(stored.rule.measure),
                "set_at": stored.at,
                "status": state.status if state and counts else "ok",
                "since": state.since if state and counts else None,
                "pending": counts and state is not None and _is_pending(state),
                "value": event.value if event else None,
                "sessions": event.sessions if event else (),
                "noted_at": found.at if found and counts else None,
            }
        )


def _is_pending(state: AlertState) -> bool:
    """Return whether a value is on the other side of a threshold, and that has not lasted yet."""
    known = [state.above, *([state.warn] if state.warn else [])]
    return any(each.is_over != each.is_passed for each in known)


def _create_entry(found: RecordedAlert) -> AlertHistoryEntry:
    event = found.event
    return AlertHistoryEntry.model_validate(
        {
            "sequence": found.head.sequence,
            "position": found.head.stream_sequence,
            "event": format_event_name(event.type),
            "at": found.at,
            "status": event.state.status,
            "value": event.value,
            "reason": event.reason if isinstance(event, AlertCleared) else None,
            "sessions": event.sessions,
            "rule": format_rule(event.name, event.rule),
        }
    )
