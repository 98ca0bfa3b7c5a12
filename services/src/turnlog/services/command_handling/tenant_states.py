"""The states of tenants' histories: one state for each tenant, folded from one family of events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol

from turnlog.events.envelope import RecordedEvent
from turnlog.services.command_handling.idempotent_commands import (
    IdempotentCommandHandler,
    Record,
    Record_co,
    State,
    get_sequence,
)

RECENT_AGE: Final = 1.0
"""Seconds for which a user who was seen to have nothing in a state is believed to have nothing.

What another process set counts from then on at the latest.
"""


class CommandRecords(Protocol[Record_co]):
    """A state that remembers the commands it was changed by."""

    @property
    def commands_by_key(self) -> Mapping[str, Record_co]:
        """The records of commands, by idempotency key."""
        ...


@dataclass(frozen=True)
class TenantStates(Generic[State, Record]):
    """Folds and caches the states of one family of events, one for each tenant."""

    create: Callable[[str], State]
    """Return the state of a tenant before the first event."""
    fold: Callable[[Sequence[RecordedEvent], State], State]
    """Apply events to a state, in order."""
    cached: dict[str, State] = field(default_factory=dict[str, State])

    def get_state(self, tenant: str, history: str) -> State | None:
        """Return the cached state, or None."""
        del history
        return self.cached.get(tenant)

    def get_presumed_state(self, tenant: str, history: str) -> State | None:
        """Return the cached state, or None; nobody else is expected to append."""
        return self.get_state(tenant, history)

    async def load_base_state(self, tenant: str, history: str) -> State:
        """Return the cached state, or else one without events."""
        return self.get_state(tenant, history) or self.create(tenant)

    def fold_events(self, events: Sequence[RecordedEvent], state: State | None) -> State:
        """Fold events onto a state and cache the result, unless a later one is cached."""
        tenant = events[0].tenant
        folded = self.fold(events, state or self.create(tenant))
        cached = self.cached.get(tenant)
        if cached is None or get_sequence(cached) < get_sequence(folded):
            self.cached[tenant] = folded
        return folded

    def fold_appended_events(self, events: Sequence[RecordedEvent], state: State | None) -> State:
        """Do the same; an append makes nothing else due."""
        return self.fold_events(events, state)

    async def find_command(self, state: CommandRecords[Record], key: str) -> Record | None:
        """Return the record of an idempotency key, or None."""
        return state.commands_by_key.get(key)


@dataclass(frozen=True)
class RecentStates(Generic[State, Record]):
    """Reads the states of one family, and knows which were read within the last `RECENT_AGE`.

    A user who has nothing in a recent state costs no further read.
    """

    handler: IdempotentCommandHandler[State, Record]
    family: str
    create: Callable[[str], State]
    """Return the state of a tenant before the first event."""
    monotonic: Callable[[], float]
    read_times: dict[str, float] = field(default_factory=dict[str, float])
    """When the last read of each tenant began."""

    async def load_state(self, tenant: str) -> State:
        """Return the state as it is now; see `IdempotentCommandHandler.load_state`."""
        started = self.monotonic()
        state = await self.handler.load_state(tenant, self.family)
        self.read_times[tenant] = started
        return state or self.create(tenant)

    def get_recent_state(self, tenant: str) -> State | None:
        """Return the cached state if it was read within the last `RECENT_AGE`, or None."""
        read_at = self.read_times.get(tenant)
        if read_at is None or self.monotonic() - read_at >= RECENT_AGE:
            return None
        return self.handler.states.get_state(tenant, self.family) or self.create(tenant)
