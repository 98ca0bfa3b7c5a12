from __future__ import annotations

from turnlog.services.cli.reader.reader import Reader
from turnlog.services.cli.talk.conversation import Conversation
from turnlog.services.gateway.payloads.turns import Submitted


async def following(conversation: Conversation, turn: Submitted) -> Submitted | None:
    """Return the turn that started by itself after a settled one, or None.

    Only a session with phases has such turns, for example a debrief.
    """
    session = await Reader(conversation.client).session(conversation.session)
    if session.phase is None or session.turns <= turn.turn:
        return None
    number = turn.turn + 1
    stream = f"/v1/sessions/{conversation.session}/turns/{number}/stream"
    return turn.model_copy(update={"turn": number, "stream": stream})
