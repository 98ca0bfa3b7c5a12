"""Requests to the JetStream API, whose answers are JSON: a result, or an error with a code.

Errors are distinguished by their codes, never by their texts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel

from turnlog.events.errors import Unavailable
from turnlog.events.nats.connection import NatsConnection


class JsApiError(Unavailable):
    """The server refused the request; `code` is the server's error code."""

    def __init__(self, what: str, code: int, detail: str) -> None:
        super().__init__(what, f"{detail} ({code})")
        self.code = code


class PublishAck(BaseModel):
    """A stream's acknowledgement that a message is stored."""

    seq: int


class _JsApiFault(BaseModel):
    err_code: int = 0
    description: str = ""


JsApiReply = TypeVar("Answer", bound=BaseModel)


async def request_json(
    connection: NatsConnection,
    subject: str,
    reply_type: type[JsApiReply],
    payload: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> JsApiReply:
    """Send a request and decode the answer.

    Raises `JsApiError`, `RequestNotSent` or `RequestUnanswered`.
    """
    message = await connection.send_request(subject, payload, headers)
    answer = json.loads(message.data)
    if "error" in answer:
        fault = _JsApiFault.model_validate(answer["error"])
        raise JsApiError(subject, fault.err_code, fault.description)
    return reply_type.model_validate(answer)
