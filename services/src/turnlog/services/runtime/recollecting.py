from __future__ import annotations

from turnlog.projections.session.state import SessionState
from turnlog.projections.window.call import Needs
from turnlog.projections.window.history import said_in
from turnlog.projections.window.memory import Recall
from turnlog.projections.window.recollection import Message, lies_further_back, told, wire
from turnlog.projections.window.visibility import Sight
from turnlog.services.runtime.sessions import Sessions


async def recollected(
    sessions: Sessions, state: SessionState, recall: Recall, sight: Sight
) -> tuple[Message, ...]:
    """Return the messages of a session's memory that the reader may see, oldest first."""
    if lies_further_back(recall, state, sight):
        state = await sessions.load_whole(state.tenant, state.session, state.head.sequence)
    turns = told(recall, state, sight)
    needs = Needs(blobs=(), said=tuple(said_in(turns)), older=False)
    texts = await sessions.texts.fetch(state.tenant, needs)
    return wire(turns, texts.said)
