from __future__ import annotations

from turnlog.services.cli.reader.reader import ServiceReader
from turnlog.services.cli.talk.conversation import SessionConversation
from turnlog.services.gateway.payloads.turns import SubmittedTurn


async def find_follow_up_turn(conversation: SessionConversation, turn: SubmittedTurn) -> SubmittedTurn | None:
    """Return the turn that started by itself after a settled one, or None.

    Only a session with phases has such turns, for example a debrief.
    """
    session = await ServiceReader(conversation.client).fetch_session(conversation.session)
    if session.phase is None or session.turns <= turn.turn:
        return None
    number = turn.turn + 1
    stream = f"/v1/sessions/{conversation.session}/turns/{number}/stream"
    return turn.model_copy(update={"turn": number, "stream": stream})
