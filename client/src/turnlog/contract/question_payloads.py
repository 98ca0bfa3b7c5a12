"""A question and its answer: a request that opens its conversation and submits its turn at once."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from turnlog.contract.payload_models import ADDED_FIELD, JsonObject, RequestModel, ResponseModel
from turnlog.contract.request_values import MAX_KEY_CHARACTERS
from turnlog.contract.session_requests import MAX_PARTS, TurnPartInput
from turnlog.contract.turn_payloads import MediaPartView


class QuestionRequest(RequestModel):
    """Asks a question in a conversation; the first question opens it."""

    question: Annotated[str, Field(min_length=1)]
    """The question."""
    conversation_id: Annotated[str, Field(min_length=1, max_length=MAX_KEY_CHARACTERS)]
    """The client's id of the conversation; any characters."""
    nickname: Annotated[str, Field(max_length=200)]
    """The name of the user; recorded and never interpreted."""
    client_id: Annotated[str, Field(min_length=1, max_length=MAX_KEY_CHARACTERS)]
    """The id of the client; any characters."""
    parts: Annotated[
        list[TurnPartInput] | None, ADDED_FIELD, Field(min_length=1, max_length=MAX_PARTS - 1)
    ] = None
    """Pictures, recordings and files of the question, which come before its text."""


class QuestionStatus(ResponseModel):
    """Whether a question could be answered."""

    reason: Literal["ok", "unroutable"]
    """The status for programs."""
    message: str
    """The status for people."""


class QuestionAnswer(ResponseModel):
    """The answer to a question, without the conversation around it."""

    status: QuestionStatus
    """Whether the question could be answered."""
    results: list[JsonValue] | JsonObject
    """The results that were found."""
    meta: JsonObject
    """Metadata about the results."""
    answer: str
    """The answer as text; empty for a question that could not be routed."""
    reply_parts: tuple[MediaPartView, ...] = Field(default=(), exclude_if=lambda parts: not parts)
    """The pictures, recordings and files of the answer; absent if it has none."""
