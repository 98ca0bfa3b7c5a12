"""Turns that start by themselves, as a debrief does: the one behind a turn that was settled.

Only a session with phases has such turns, so no other is asked twice.
"""

from __future__ import annotations

from turnlog.services.cli.reader.reader import Reader
from turnlog.services.cli.talk.conversation import Conversation
from turnlog.services.gateway.payloads.turns import Submitted


async def following(conversation: Conversation, turn: Submitted) -> Submitted | None:
    """Give the turn that started behind a settled one; none where nothing did."""
    session = await Reader(conversation.client).session(conversation.session)
    if session.phase is None or session.turns <= turn.turn:
        return None
    number = turn.turn + 1
    stream = f"/v1/sessions/{conversation.session}/turns/{number}/stream"
    return turn.model_copy(update={"turn": number, "stream": stream})
