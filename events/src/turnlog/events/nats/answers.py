"""Requests to the JetStream API, whose answers are JSON: a result, or an error with a code.

Errors are distinguished by their codes, never by their texts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel

from turnlog.events.errors import Unavailable
from turnlog.events.nats.connection import Connection


class Denied(Unavailable):
    """The server refused the request; `code` is the server's error code."""

    def __init__(self, what: str, code: int, detail: str) -> None:
        super().__init__(what, f"{detail} ({code})")
        self.code = code


class Ack(BaseModel):
    """A stream's acknowledgement that a message is stored."""

    seq: int


class _Fault(BaseModel):
    err_code: int = 0
    description: str = ""


Answer = TypeVar("Answer", bound=BaseModel)


async def ask(
    connection: Connection,
    subject: str,
    kind: type[Answer],
    payload: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Send a request and decode the answer.

    Raises `JsApiError`, `RequestNotSent` or `RequestUnanswered`.
    """
    message = await connection.request(subject, payload, headers)
    answer = json.loads(message.data)
    if "error" in answer:
        fault = _Fault.model_validate(answer["error"])
        raise Denied(subject, fault.err_code, fault.description)
    return kind.model_validate(answer)
