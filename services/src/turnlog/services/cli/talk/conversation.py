"""A conversation over HTTP: open a session, submit turns, and stream replies.

After a lost connection the stream continues from the last cursor, so nothing is missed or shown
twice. Every submit carries an idempotency key, so it can be repeated safely.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import httpx
from pydantic import JsonValue

from turnlog.services.cli.reader.frames import Frame, frames
from turnlog.services.cli.reader.refusals import checked, reaching
from turnlog.services.gateway.payloads.sessions import Opened
from turnlog.services.gateway.payloads.turns import Submitted

ENDS: Final = frozenset({"done", "redact", "failed", "cancelled"})
"""Names of the events that end a turn's stream."""
MOST_RECONNECTS: Final = 20


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation with one session."""

    client: httpx.AsyncClient
    session: str

    async def submit(self, text: str) -> Submitted:
        return Submitted.model_validate_json(
            await posted(self.client, f"/v1/sessions/{self.session}/turns", {"text": text})
        )

    async def cancel(self) -> None:
        """Cancel the open turn."""
        await posted(self.client, f"/v1/sessions/{self.session}/cancel", {})

    async def watch(self, turn: Submitted) -> AsyncGenerator[Frame]:
        """Yield the frames of a turn until its end; reconnect when the connection is lost."""
        cursor = ""
        for _ in range(MOST_RECONNECTS):
            async with aclosing(self._connected(turn.stream, cursor)) as shown:
                async for frame in shown:
                    cursor = frame.cursor
                    yield frame
                    if frame.name in ENDS:
                        return

    async def _connected(self, stream: str, cursor: str) -> AsyncGenerator[Frame]:
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": cursor} if cursor else {})
        with reaching(str(self.client.base_url)):
            async with self.client.stream("GET", stream, headers=headers) as answer:
                if not answer.is_success:
                    await answer.aread()
                checked(answer)
                async with aclosing(frames(answer.aiter_lines())) as shown:
                    async for frame in shown:
                        yield frame


async def opened(
    client: httpx.AsyncClient, blueprint: str, attributes: dict[str, JsonValue]
) -> Opened:
    asked: dict[str, JsonValue] = {"blueprint": blueprint, "attributes": attributes}
    return Opened.model_validate_json(await posted(client, "/v1/sessions", asked))


async def posted(client: httpx.AsyncClient, path: str, payload: JsonValue) -> bytes:
    """Send a command under a new idempotency key and return the answer's body."""
    headers = {"Idempotency-Key": uuid4().hex}
    with reaching(str(client.base_url)):
        answer = await client.post(path, json=payload, headers=headers)
    return checked(answer).content
