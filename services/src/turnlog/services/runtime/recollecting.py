from __future__ import annotations

from turnlog.projections.session.state import SessionState
from turnlog.projections.window.call import PromptNeeds
from turnlog.projections.window.history import list_turn_refs
from turnlog.projections.window.memory import MemoryAccess
from turnlog.projections.window.recollection import MemoryMessage, can_reach_older_turns, select_memory_turns, format_memory_messages
from turnlog.projections.window.visibility import PhaseVisibility
from turnlog.services.runtime.sessions import CommandHandler


async def load_memory_messages(
    command_handler: CommandHandler, state: SessionState, recall: MemoryAccess, sight: PhaseVisibility
) -> tuple[MemoryMessage, ...]:
    """Return the messages of a session's memory that the reader may see, oldest first."""
    if can_reach_older_turns(recall, state, sight):
        state = await command_handler.load_full_state(state.tenant, state.session, state.head.sequence)
    turns = select_memory_turns(recall, state, sight)
    needs = PromptNeeds(blobs=(), text_refs=tuple(list_turn_refs(turns)), needs_older_turns=False)
    texts = await command_handler.texts.fetch_texts(state.tenant, needs)
    return format_memory_messages(turns, texts.by_ref)
