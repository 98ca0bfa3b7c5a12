"""The response to a question, which opens its conversation and submits its turn at once."""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from turnlog.contract.payload_models import JsonObject, ResponseModel


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
