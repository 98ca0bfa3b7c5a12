"""The override service: the prompts that users have in place of those of a blueprint.

An edit is appended to one history of the tenant. Turns take what their user has when they are
submitted, and name it themselves, so nothing is looked up here when a prompt is assembled.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from turnlog.events.model.override_events import OVERRIDE_FAMILY, UserOverride
from turnlog.events.registry import LibraryEvent
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
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.tenant_histories import (
    LibraryParts,
    TenantHistory,
    TenantStates,
)


@dataclass
class OverrideService:
    """The prompt overrides of all tenants, for one process."""

    parts: LibraryParts
    monotonic: Callable[[], float] = time.monotonic
    history: TenantHistory[TenantOverrides, OverrideCommandRecord] = field(init=False)

    def __post_init__(self) -> None:
        states = TenantStates[TenantOverrides, OverrideCommandRecord](
            _create_overrides, fold_overrides
        )
        self.history = TenantHistory(
            parts=self.parts,
            family=OVERRIDE_FAMILY,
            create=_create_overrides,
            states=states,
            log_name="overrides",
            has_words=True,
            monotonic=self.monotonic,
        )

    async def load_overrides(self, tenant: str) -> TenantOverrides:
        """Return the overrides of a tenant's users as they are now."""
        return await self.history.load_state(tenant)

    async def list_turn_overrides(
        self, tenant: str, user: str | None, blueprint: Blueprint
    ) -> tuple[UserOverride, ...]:
        """Return what a turn of a user takes, without a read where there was nothing just now."""
        has_categories = any(isinstance(each, OverrideLayer) for each in blueprint.layers.values())
        if user is None or not has_categories:
            return ()
        name = blueprint.blueprint
        recent = self.history.get_recent_state(tenant)
        if recent is not None and not recent.list_overrides(user, name):
            return ()
        overrides = await self.load_overrides(tenant)
        return tuple(each.override for each in overrides.list_overrides(user, name))

    async def set_override(
        self, caller: Caller, user: str, blueprint: str, place: OverridePlace, *, text: str
    ) -> tuple[TenantOverrides, StoredOverride | None]:
        """Set a text that was checked; see `TenantHistory.handle`.

        Returns the overrides after it, and the one that this command set, also if it is repeated.
        """

        def decide(state: TenantOverrides) -> Sequence[LibraryEvent]:
            event = decide_override(
                before=state, user=user, blueprint=blueprint, place=place, text=text
            )
            return () if event is None else (event,)

        outcome = await self.history.handle(
            caller.tenant, decide, caller.metadata, caller.command, texts=(text,)
        )
        if outcome.record is not None:
            return outcome.state, outcome.record.stored
        return outcome.state, outcome.state.find_override(user, blueprint, place)

    async def remove_override(
        self, caller: Caller, user: str, blueprint: str, place: OverridePlace
    ) -> TenantOverrides:
        """Remove an override; raises `Refused` if there is none."""
        outcome = await self.history.handle(
            caller.tenant,
            lambda state: (decide_removal(state, user, blueprint, place),),
            caller.metadata,
            caller.command,
        )
        return outcome.state


def _create_overrides(tenant: str) -> TenantOverrides:
    return TenantOverrides(tenant=tenant)
