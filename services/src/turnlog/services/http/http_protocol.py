"""The HTTP/1.1 protocol class: a timeout and problem details for request heads.

uvicorn waits for a head without a limit and answers malformed HTTP in its own format. This protocol
answers both with problem details and closes the connection. It closes a connection that has sent no
bytes without a response, because a browser that preconnected would take the response for the answer
to its first request.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import h11
from starlette.responses import Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from turnlog.events.errors import Refused
from turnlog.services.http.problem_details import create_error_response


def create_http_protocol(seconds: float) -> type[H11Protocol]:
    """Return a protocol class that allows `seconds` for each request head."""

    class Heads(H11Protocol):
        def __init__(self, *args: Any, **more: Any) -> None:  # noqa: ANN401 - uvicorn's own
            super().__init__(*args, **more)
            self.due: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._look()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._look()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._look()

        def send_400_response(self, msg: str) -> None:
            fix = "send HTTP/1.1, with a head of at most 64 KiB"
            self._refuse(Refused("bad-request", msg, field="head", fix=fix))

        def _look(self) -> None:
            awaited = self.conn.their_state is h11.IDLE and not self.transport.is_closing()
            if awaited and self.due is None:
                self.due = self.loop.call_later(seconds, self._late)
            elif self.due is not None and not awaited:
                self.due.cancel()
                self.due = None

        def _late(self) -> None:
            began, _ = self.conn.trailing_data
            if began:
                detail = f"the head did not arrive within {seconds:g} s"
                self._refuse(Refused("too-slow", detail, field="head", fix="send it in one go"))
            self.transport.close()

        def _refuse(self, refused: Refused) -> None:
            if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
                for event in _encode_h11_response(create_error_response(refused, closing=True)):
                    self.transport.write(self.conn.send(event) or b"")
            self.transport.close()

    return Heads


def _encode_h11_response(response: Response) -> tuple[h11.Event, ...]:
    phrase = HTTPStatus(response.status_code).phrase
    head = h11.Response(
        status_code=response.status_code, headers=response.raw_headers, reason=phrase
    )
    return head, h11.Data(data=bytes(response.body)), h11.EndOfMessage()
