"""The settings of the tenants of an installation, folded from their events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from turnlog.events.codec import decode_library_event
from turnlog.events.content import Digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.installation.tenant_events import TenantConfigured
from turnlog.projections.access.recorded_commands import record_command
from turnlog.projections.blueprint.sent_names import quote_sent_name

MAX_TENANTS: Final = 10_000
"""Most tenants that have settings: every process holds all of them."""

ANY_SUFFIX: Final = "*"
"""What a model pattern ends with that allows every name which begins with the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantSettings:
    """What a tenant may use; by default everything."""

    tenant: str
    models: tuple[str, ...] | None = None
    """Names and prefixes of the models that it may use; None for all."""
    max_open_turns: int | None = None
    """Turns that may be open or queued, without those that wait for a person; None for any."""
    max_waiting_turns: int | None = None
    """Turns that may wait for a person's approval; None for any."""
    body_bytes_per_minute: int | None = None
    """Bytes of the bodies of its requests in a minute; None for what the gateway says."""
    provider_keys: Mapping[str, str] = field(default_factory=dict[str, str])
    """Where its own key of a provider is, by the provider; see `TenantConfigured`."""
    changes: int = 0
    """How many events set them. The history of all would tell a tenant what the others do."""
    changed_at: str | None = None
    """When they were set, RFC 3339; None for a tenant without settings."""
    changed_by: str | None = None
    """The actor who set them."""

    def allows_model(self, model: str) -> bool:
        """Return whether the tenant may use a model, by the name that litellm has for it."""
        if self.models is None:
            return True
        return any(_is_match(pattern, model) for pattern in self.models)

    def require_model(self, model: str, named_by: str, field: str = "model") -> None:
        """Raise `Refused` `model-not-allowed` for a model that the tenant may not use."""
        if self.allows_model(model):
            return
        listed = ", ".join(self.models or ()) or "none"
        detail = f"the tenant may not use model {quote_sent_name(model)}, which {named_by} names"
        fix = (
            f"use another one (allowed: {listed}), or have whoever has the root key allow it "
            "by `turnlog tenants set`"
        )
        raise Refused("model-not-allowed", detail, field=field, fix=fix)


def _is_match(pattern: str, model: str) -> bool:
    if pattern.endswith(ANY_SUFFIX):
        return model.startswith(pattern.removesuffix(ANY_SUFFIX))
    return model == pattern


@dataclass(frozen=True, slots=True)
class TenantCommandRecord:
    """A command that was carried out; the same key with the same body gets the same answer."""

    hash: Digest
    settings: TenantSettings
    """The settings after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstallationTenants:
    """The settings of all tenants that have some."""

    head: ChainHead | None = None
    """The last event; None before the first."""
    by_name: Mapping[str, TenantSettings] = field(default_factory=dict[str, TenantSettings])
    commands_by_key: Mapping[str, TenantCommandRecord] = field(
        default_factory=dict[str, TenantCommandRecord]
    )
    """Commands by idempotency key."""

    @property
    def sequence(self) -> int:
        """The sequence of the last event; 0 before the first."""
        return self.head.sequence if self.head else 0

    def get_settings(self, tenant: str) -> TenantSettings:
        """Return the settings of a tenant, which limit nothing where it has none."""
        return self.by_name.get(tenant) or TenantSettings(tenant=tenant)


def create_installation_tenants(tenant: str) -> InstallationTenants:
    """Return the settings of all tenants before the first event."""
    del tenant
    return InstallationTenants()


def decide_tenant(
    before: InstallationTenants, configured: TenantConfigured
) -> Sequence[TenantConfigured]:
    """Return the event that sets a tenant's settings; none where it has them already."""
    known = before.by_name.get(configured.tenant)
    if known is None and len(before.by_name) >= MAX_TENANTS:
        detail = f"{MAX_TENANTS:,} tenants have settings, and no more may have"
        raise Refused("too-many-tenants", detail, field="tenant", fix="leave its settings out")
    if known is not None and create_event(known) == configured:
        return ()
    return (configured,)


def create_event(settings: TenantSettings) -> TenantConfigured:
    """Return the event that sets these settings."""
    return TenantConfigured.model_validate(
        {name: getattr(settings, name) for name in TenantConfigured.model_fields}
    )


def fold_tenants(
    events: Iterable[RecordedEvent], before: InstallationTenants
) -> InstallationTenants:
    """Apply events to the settings, in order."""
    by_name, commands, head = dict(before.by_name), dict(before.commands_by_key), before.head
    for recorded in events:
        event, head = decode_library_event(recorded), recorded.head
        if not isinstance(event, TenantConfigured):
            continue
        known = by_name.get(event.tenant)
        settings = TenantSettings(
            **dict(event),
            changes=1 if known is None else known.changes + 1,
            changed_at=recorded.envelope.time,
            changed_by=recorded.envelope.actor,
        )
        by_name[event.tenant] = settings
        record_command(commands, recorded, partial(TenantCommandRecord, settings=settings))
    return InstallationTenants(head=head, by_name=by_name, commands_by_key=commands)
