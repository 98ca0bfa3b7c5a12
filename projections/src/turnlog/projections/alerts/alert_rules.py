"""The rules of a tenant's alerts, folded from their events."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from turnlog.events.codec import decode_library_event
from turnlog.events.content import Digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.alert_events import (
    AlertRule,
    AlertRuleEvent,
    AlertRuleRemoved,
    AlertRuleSet,
)
from turnlog.projections.blueprint.sent_names import format_sent_name

MAX_ALERT_RULES: Final = 100
"""Most rules of a tenant: each is measured once a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAlertRule:
    """A rule as the library holds it."""

    name: str
    rule: AlertRule
    sequence: int
    """The sequence of the event that set it, by which its alert knows an earlier rule."""
    at: str
    """When it was set, RFC 3339."""


@dataclass(frozen=True, slots=True)
class AlertCommandRecord:
    """A command that was carried out; the same key with the same body gets the same answer."""

    hash: Digest
    changed: tuple[str, ...]
    """The names of the rules that it set or removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantAlertRules:
    """The rules of a tenant."""

    tenant: str
    head: ChainHead | None = None
    """The last event; None before the first."""
    by_name: Mapping[str, StoredAlertRule] = field(default_factory=dict[str, StoredAlertRule])
    removed: Mapping[str, int] = field(default_factory=dict[str, int])
    """The sequence of the event that removed a rule, by names that no rule has any more."""
    commands_by_key: Mapping[str, AlertCommandRecord] = field(
        default_factory=dict[str, AlertCommandRecord]
    )
    """Commands by idempotency key."""

    @property
    def sequence(self) -> int:
        """The sequence of the last event; 0 before the first."""
        return self.head.sequence if self.head else 0

    def get_rule(self, name: str) -> StoredAlertRule:
        """Return a rule; raises `Refused` if there is none of this name."""
        found = self.by_name.get(name)
        if found is None:
            detail = f"there is no alert {format_sent_name(name)}"
            fix = "see `/v1/alerts` for those there are"
            raise Refused("unknown-alert", detail, field="name", fix=fix)
        return found


def create_alert_rules(tenant: str) -> TenantAlertRules:
    """Return the rules of a tenant before the first event."""
    return TenantAlertRules(tenant=tenant)


def decide_rules(
    before: TenantAlertRules, rules: Mapping[str, AlertRule], *, removes_others: bool
) -> Sequence[AlertRuleEvent]:
    """Return the events that set rules, without those that are set already; raises `Refused`."""
    names = {*rules} if removes_others else {*before.by_name, *rules}
    if len(names) > MAX_ALERT_RULES:
        detail = f"there would be {len(names)} alerts, and {MAX_ALERT_RULES} may be"
        raise Refused("too-many-alerts", detail, field="alerts", fix="remove some of them")
    removed = _list_removals(before, names) if removes_others else ()
    changed = (
        AlertRuleSet(name=name, rule=rule)
        for name, rule in rules.items()
        if name not in before.by_name or before.by_name[name].rule != rule
    )
    return (*removed, *changed)


def decide_rule_removal(before: TenantAlertRules, name: str) -> AlertRuleRemoved:
    """Return the event that removes a rule; raises `Refused` if there is none."""
    return AlertRuleRemoved(name=before.get_rule(name).name)


def _list_removals(
    before: TenantAlertRules, remaining: Collection[str]
) -> tuple[AlertRuleRemoved, ...]:
    return tuple(AlertRuleRemoved(name=name) for name in before.by_name if name not in remaining)


def fold_alert_rules(events: Iterable[RecordedEvent], before: TenantAlertRules) -> TenantAlertRules:
    """Apply events to the rules, in order."""
    by_name, removed, head = dict(before.by_name), dict(before.removed), before.head
    commands = dict(before.commands_by_key)
    for recorded in events:
        event, head = decode_library_event(recorded), recorded.head
        if isinstance(event, AlertRuleSet):
            by_name[event.name] = StoredAlertRule(
                name=event.name,
                rule=event.rule,
                sequence=recorded.sequence,
                at=recorded.envelope.time,
            )
            removed.pop(event.name, None)
        elif isinstance(event, AlertRuleRemoved):
            by_name.pop(event.name, None)
            removed[event.name] = recorded.sequence
        else:
            continue
        key, digest = recorded.envelope.commandkey, recorded.envelope.commandhash
        if key is not None and digest is not None:
            earlier = commands.get(key)
            changed = (*(earlier.changed if earlier else ()), event.name)
            commands[key] = AlertCommandRecord(digest, changed)
    return TenantAlertRules(
        tenant=before.tenant,
        head=head,
        by_name=by_name,
        removed=removed,
        commands_by_key=commands,
    )
