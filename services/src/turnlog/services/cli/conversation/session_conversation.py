"""A conversation over HTTP: open a session, submit turns, and stream replies.

After a lost connection the stream continues from the last cursor, so nothing is missed or shown
twice. Every submit carries an idempotency key, so it can be repeated safely.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import httpx
from pydantic import JsonValue

from turnlog.client.sse_events import ApprovalEvent, SseMessage
from turnlog.events.model.tool_events import ApprovalDecision
from turnlog.services.api.session_payloads import OpenedSession
from turnlog.services.api.turn_payloads import CommandResult, SubmittedTurn
from turnlog.services.cli.client.http_responses import stream_messages
from turnlog.services.cli.client.service_connection import send_client_command
from turnlog.services.cli.client.service_reader import ServiceReader

END_EVENTS: Final = frozenset({"done", "redact", "failed", "cancelled"})
"""Names of the events that end a turn's stream."""

MAX_RECONNECTS: Final = 20


@dataclass(frozen=True, slots=True)
class SessionConversation:
    """A conversation with one session."""

    client: httpx.AsyncClient
    session: str
    user: str | None = None
    """Who asks, where no proxy names users."""

    async def submit_turn(self, text: str) -> SubmittedTurn:
        path = f"/v1/sessions/{self.session}/turns"
        body = {"text": text, "user": self.user}
        return await send_client_command(
            client=self.client, method="POST", path=path, body=body, answer_type=SubmittedTurn
        )

    async def cancel_turn(self) -> None:
        """Cancel the open turn."""
        path = f"/v1/sessions/{self.session}/cancel"
        await send_client_command(
            client=self.client, method="POST", path=path, body={}, answer_type=CommandResult
        )

    async def decide_approval(
        self, event: ApprovalEvent, decision: ApprovalDecision, reason: str = ""
    ) -> None:
        """Approve or refuse a tool that waits for it, here or in a child session."""
        path = f"/v1/sessions/{event.session}/turns/{event.turn}/approvals/{event.approval}"
        body: dict[str, JsonValue] = {"decision": decision, "reason": reason}
        await send_client_command(
            client=self.client, method="POST", path=path, body=body, answer_type=CommandResult
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
        request = self.client.build_request("GET", stream, headers=headers)
        return stream_messages(self.client, request)


async def open_session(
    client: httpx.AsyncClient,
    blueprint: str,
    attributes: dict[str, JsonValue],
    profile: str | None = None,
) -> OpenedSession:
    body: dict[str, JsonValue] = {
        "blueprint": blueprint,
        "attributes": attributes,
        "profile": profile,
    }
    return await send_client_command(
        client=client, method="POST", path="/v1/sessions", body=body, answer_type=OpenedSession
    )


async def find_follow_up_turn(
    conversation: SessionConversation, turn: SubmittedTurn
) -> SubmittedTurn | None:
    """Return the turn that started by itself after a settled one, or None.

    Only a session with phases has such turns, for example a debrief.
    """
    session = await ServiceReader(conversation.client).fetch_session(conversation.session)
    if session.phase is None or session.turns <= turn.turn:
        return None
    number = turn.turn + 1
    stream = f"/v1/sessions/{conversation.session}/turns/{number}/stream"
    return turn.model_copy(update={"turn": number, "stream": stream})
