"""The knowledge service: load a tenant's collections, decide a command, append its events.

Every knowledge event is appended here. Texts are stored before the events that refer to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from turnlog.events import codec
from turnlog.events.model.knowledge_events import KNOWLEDGE_FAMILY
from turnlog.events.registry import KnowledgeEvent
from turnlog.events.store.ports import BlobStore, EventLog
from turnlog.events.subjects import LIBRARY_HISTORY
from turnlog.projections.knowledge.knowledge_decisions import decide_knowledge
from turnlog.projections.knowledge.knowledge_inputs import KnowledgeCommand, PutEntries
from turnlog.projections.knowledge.knowledge_state import (
    KnowledgeChanges,
    KnowledgeCommandRecord,
    KnowledgeState,
    collect_changes,
    fold_knowledge,
)
from turnlog.services.command_handling.idempotent_commands import (
    CommandMetadata,
    IdempotentCommandHandler,
)
from turnlog.services.command_handling.tenant_states import TenantStates
from turnlog.services.command_handling.text_storage import store_texts
from turnlog.services.platform.clock import Clock, CreateId


@dataclass(frozen=True, slots=True)
class KnowledgeOutcome:
    """The result of a command: the state after it, and the entries that it changed."""

    state: KnowledgeState
    changes: KnowledgeChanges


@dataclass
class KnowledgeService:
    """The knowledge of all tenants, for one process."""

    log: EventLog
    blobs: BlobStore
    clock: Clock
    create_id: CreateId
    source: str
    """The `source` of appended events."""
    _handler: IdempotentCommandHandler[KnowledgeState, KnowledgeCommandRecord] = field(init=False)

    def __post_init__(self) -> None:
        self._handler = IdempotentCommandHandler(
            self.log,
            LIBRARY_HISTORY,
            TenantStates(KnowledgeState, fold_knowledge),
            self.clock,
            self.create_id,
            self.source,
            log_name="library",
        )

    async def load_state(self, tenant: str) -> KnowledgeState:
        """Return the state of a tenant; see `IdempotentCommandHandler.load_state`."""
        state = await self._handler.load_state(tenant, KNOWLEDGE_FAMILY)
        return state or KnowledgeState(tenant)

    async def read_sequence(self, tenant: str) -> int:
        """Return the sequence of the tenant's last knowledge event; 0 before the first."""
        last = await self.log.read_last_event(tenant, KNOWLEDGE_FAMILY)
        return last.sequence if last else 0

    async def handle(
        self,
        tenant: str,
        command: KnowledgeCommand,
        metadata: CommandMetadata,
        key: codec.CommandRef | None = None,
    ) -> KnowledgeOutcome:
        """Carry out a command; see `IdempotentCommandHandler.handle`."""

        async def decide_events(state: KnowledgeState | None) -> Sequence[KnowledgeEvent]:
            events = decide_knowledge(state or KnowledgeState(tenant), command)
            if events and isinstance(command, PutEntries):
                await store_texts(self.blobs, tenant, (each.text for each in command.entries))
            return events

        handled = await self._handler.handle(tenant, KNOWLEDGE_FAMILY, decide_events, metadata, key)
        state = handled.state or KnowledgeState(tenant)
        if handled.record is not None:
            return KnowledgeOutcome(state, handled.record.result)
        if not handled.events:
            return KnowledgeOutcome(state, KnowledgeChanges(state.sequence))
        return KnowledgeOutcome(state, collect_changes(handled.events))
