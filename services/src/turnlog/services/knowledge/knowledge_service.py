"""The knowledge service: load a tenant's collections, decide a command, append its events.

Every knowledge event is appended here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from turnlog.events import codec
from turnlog.events.model.knowledge_events import KNOWLEDGE_FAMILY
from turnlog.projections.knowledge.knowledge_decisions import decide_knowledge
from turnlog.projections.knowledge.knowledge_inputs import KnowledgeCommand, PutEntries
from turnlog.projections.knowledge.knowledge_state import (
    KnowledgeChanges,
    KnowledgeCommandRecord,
    KnowledgeState,
    collect_changes,
    fold_knowledge,
)
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.command_handling.tenant_histories import (
    LibraryParts,
    TenantChange,
    TenantHistory,
    TenantStates,
    build_change,
)

KnowledgeChange = TenantChange[KnowledgeState, KnowledgeChanges]
"""The result of a command: the state after it, and the entries that it changed."""


@dataclass
class KnowledgeService:
    """The knowledge of all tenants, for one process."""

    parts: LibraryParts
    history: TenantHistory[KnowledgeState, KnowledgeCommandRecord] = field(init=False)

    def __post_init__(self) -> None:
        states = TenantStates[KnowledgeState, KnowledgeCommandRecord](
            KnowledgeState, fold_knowledge
        )
        self.history = TenantHistory(
            parts=self.parts,
            family=KNOWLEDGE_FAMILY,
            create=KnowledgeState,
            states=states,
            has_words=True,
        )

    async def load_state(self, tenant: str) -> KnowledgeState:
        """Return the state of a tenant; see `TenantHistory.load_state`."""
        return await self.history.load_state(tenant)

    async def read_sequence(self, tenant: str) -> int:
        """Return the sequence of the tenant's last knowledge event; 0 before the first."""
        last = await self.parts.log.read_last_event(tenant, KNOWLEDGE_FAMILY)
        return last.sequence if last else 0

    async def handle(
        self,
        tenant: str,
        command: KnowledgeCommand,
        metadata: CommandMetadata,
        key: codec.CommandRef | None = None,
    ) -> KnowledgeChange:
        """Carry out a command; see `TenantHistory.handle`."""
        entries = command.entries if isinstance(command, PutEntries) else ()
        outcome = await self.history.handle(
            tenant,
            lambda state: decide_knowledge(state, command),
            metadata,
            key,
            texts=[each.text for each in entries],
        )
        return build_change(outcome, collect_changes, KnowledgeChanges)
