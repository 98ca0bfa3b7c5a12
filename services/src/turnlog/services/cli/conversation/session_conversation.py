"""A conversation over HTTP: open a session, submit turns, and stream replies.

After a lost connection the stream continues from the last cursor, so nothing is missed or shown
twice. Every submit carries an idempotency key, so it can be repeated safely.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from turnlog.client import operations
from turnlog.client.operations import ClientOperation
from turnlog.client.sse_events import ApprovalEvent, SseMessage
from turnlog.contract import api_paths
from turnlog.contract.api_paths import format_path
from turnlog.contract.turn_payloads import SubmittedTurn
from turnlog.events.model.tool_events import ApprovalDecision
from turnlog.services.cli.client.attached_files import MediaInput
from turnlog.services.cli.client.service_client import ServiceClient

END_EVENTS: Final = frozenset({"done", "redact", "failed", "cancelled"})
"""Names of the events that end a turn's stream."""

MAX_RECONNECTS: Final = 20


@dataclass(frozen=True, slots=True)
class SessionConversation:
    """A conversation with one session."""

    service: ServiceClient
    session: str
    user: str | None = None
    """Who asks, where no proxy names users."""
    has_reasoning: bool = False
    """Whether the streams have what the model reasons."""

    async def submit_turn(self, text: str, attached: Sequence[MediaInput] = ()) -> SubmittedTurn:
        """Submit a turn with a text, and with files that were uploaded."""
        parts = [{"type": "text", "text": text}, *attached] if attached else None
        return await self.service.send(
            operations.submit_turn(
                self.session, None if parts else text, parts=parts, user=self.user
            )
        )

    async def cancel_turn(self) -> None:
        """Cancel the open turn."""
        await self.service.send(operations.cancel_turn(self.session))

    async def decide_approval(
        self, event: ApprovalEvent, decision: ApprovalDecision, reason: str = ""
    ) -> None:
        """Approve or refuse a tool that waits for it, here or in a child session."""
        await self.service.send(
            operations.decide_approval(
                session=event.session,
                turn=event.turn,
                approval=event.approval,
                decision=decision,
                reason=reason,
                shown=event.digest,
            )
        )

    async def watch_turn(self, turn: SubmittedTurn, cursor: str = "") -> AsyncGenerator[SseMessage]:
        """Yield the frames of a turn after a cursor until its end.

        It reconnects when the connection is lost.
        """
        for _ in range(MAX_RECONNECTS):
            async with aclosing(self._stream_frames(turn.stream, cursor)) as frames:
                async for frame in frames:
                    cursor = frame.cursor
                    yield frame
                    if frame.name in END_EVENTS:
                        return

    def _stream_frames(self, stream: str, cursor: str) -> AsyncGenerator[SseMessage]:
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": cursor} if cursor else {})
        query = {"reasoning": "true"} if self.has_reasoning else dict[str, str]()
        return self.service.stream_messages(
            ClientOperation("GET", stream, object, query=query, headers=headers)
        )


async def find_follow_up_turn(
    conversation: SessionConversation, turn: SubmittedTurn
) -> SubmittedTurn | None:
    """Return the turn that started by itself after a settled one, or None.

    Only a session with phases has such turns, for example a debrief.
    """
    session = await conversation.service.send(operations.fetch_state(conversation.session))
    if session.phase is None or session.turns <= turn.turn:
        return None
    number = turn.turn + 1
    stream = format_path(api_paths.TURN_STREAM, session=conversation.session, turn=number)
    return turn.model_copy(update={"turn": number, "stream": stream})
