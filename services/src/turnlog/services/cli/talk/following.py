"""Turns that start by themselves: the one that follows a turn nobody has to answer."""

from __future__ import annotations

from turnlog.services.cli.reader.reader import Reader
from turnlog.services.cli.talk.conversation import Conversation
from turnlog.services.gateway.payloads.turns import Submitted


async def following(conversation: Conversation, turn: Submitted) -> Submitted | None:
    """Give the turn behind one that was settled; none where nothing started."""
    session = await Reader(conversation.client).session(conversation.session)
    if session.turns <= turn.turn:
        return None
    number = turn.turn + 1
    stream = f"/v1/sessions/{conversation.session}/turns/{number}/stream"
    return turn.model_copy(update={"turn": number, "stream": stream})
