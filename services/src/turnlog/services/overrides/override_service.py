"""The override service: the prompts that users have in place of those of a blueprint.

An edit is appended to one history of the tenant. A text is stored before the event that names it,
so whoever reads of a version can read its text. Turns take what their user has when they are
submitted, and name it themselves, so nothing is looked up here when a prompt is assembled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from turnlog.events import codec
from turnlog.events.model.override_events import OVERRIDE_FAMILY, UserOverride
from turnlog.events.registry import LibraryEvent
from turnlog.events.store.ports import BlobStore, EventLog
from turnlog.events.subjects import LIBRARY_HISTORY
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.layer_specs import OverrideLayer
from turnlog.projections.blueprint.schema.prompt_overrides import OverridePlace
from turnlog.projections.library.user_overrides import (
    OverrideCommandRecord,
    StoredOverride,
    TenantOverrides,
    decide_override,
    decide_removal,
    fold_overrides,
)
from turnlog.services.command_handling.idempotent_commands import (
    CommandMetadata,
    IdempotentCommandHandler,
)
from turnlog.services.command_handling.tenant_states import RecentStates, TenantStates
from turnlog.services.platform.clock import Clock, CreateId


@dataclass
class OverrideService:
    """The prompt overrides of all tenants, for one process."""

    log: EventLog
    """The log of the library."""
    blobs: BlobStore
    clock: Clock
    create_id: CreateId
    source: str
    """The `source` of appended events."""
    monotonic: Callable[[], float] = time.monotonic
    _handler: IdempotentCommandHandler[TenantOverrides, OverrideCommandRecord] = field(init=False)
    _recent: RecentStates[TenantOverrides, OverrideCommandRecord] = field(init=False)

    def __post_init__(self) -> None:
        made = (self.clock, self.create_id, self.source, "overrides")
        self._handler = IdempotentCommandHandler(
            self.log, LIBRARY_HISTORY, TenantStates(TenantOverrides, fold_overrides), *made
        )
        self._recent = RecentStates(self._handler, OVERRIDE_FAMILY, TenantOverrides, self.monotonic)

    async def load_overrides(self, tenant: str) -> TenantOverrides:
        """Return the overrides of a tenant's users as they are now."""
        return await self._recent.load_state(tenant)

    async def list_turn_overrides(
        self, tenant: str, user: str | None, blueprint: Blueprint
    ) -> tuple[UserOverride, ...]:
        """Return what a turn of a user takes, without a read where there was nothing just now."""
        has_categories = any(isinstance(each, OverrideLayer) for each in blueprint.layers.values())
        if user is None or not has_categories:
            return ()
        name = blueprint.blueprint
        recent = self._recent.get_recent_state(tenant)
        if recent is not None and not recent.list_overrides(user, name):
            return ()
        overrides = await self.load_overrides(tenant)
        return tuple(each.override for each in overrides.list_overrides(user, name))

    async def set_override(
        self,
        tenant: str,
        user: str,
        blueprint: str,
        place: OverridePlace,
        text: str,
        metadata: CommandMetadata,
        key: codec.CommandRef | None = None,
    ) -> tuple[TenantOverrides, StoredOverride | None]:
        """Set a text that was checked; see `IdempotentCommandHandler.handle`.

        Returns the overrides after it, and the one that this command set, also if it is repeated.
        """

        async def decide(state: TenantOverrides | None) -> Sequence[LibraryEvent]:
            event = decide_override(state or TenantOverrides(tenant), user, blueprint, place, text)
            if event is None:
                return ()
            await self.blobs.put_blob(tenant, text.encode())
            return (event,)

        handled = await self._handler.handle(tenant, OVERRIDE_FAMILY, decide, metadata, key)
        overrides = handled.state or TenantOverrides(tenant)
        if handled.record is not None:
            return overrides, handled.record.stored
        return overrides, overrides.find_override(user, blueprint, place)

    async def remove_override(
        self,
        tenant: str,
        user: str,
        blueprint: str,
        place: OverridePlace,
        metadata: CommandMetadata,
        key: codec.CommandRef | None = None,
    ) -> TenantOverrides:
        """Remove an override; raises `Refused` if there is none."""

        async def decide(state: TenantOverrides | None) -> Sequence[LibraryEvent]:
            return (decide_removal(state or TenantOverrides(tenant), user, blueprint, place),)

        handled = await self._handler.handle(tenant, OVERRIDE_FAMILY, decide, metadata, key)
        return handled.state or TenantOverrides(tenant)
