"""Codes of turns and attempts that failed: `code` of `turn-failed`, `attempt-ended`, `failed`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TURN_FAILURES: Final[Mapping[str, str]] = {
    "bad_request": "the provider does not understand the request",
    "check_failed": "a safety check raised an error, so nobody knows whether the text may be shown",
    "claims-exhausted": "workers claimed the turn as often as they may and ended each time",
    "content_filtered": "the provider refused to answer what was asked",
    "context_overflow": "the prompt is longer than the model takes",
    "corrupt": "stored bytes that the prompt needs are not what Turnlog wrote",
    "deadline": "the turn was not answered within its time",
    "disconnected": "the connection to the provider broke off",
    "empty": "the answer has no text",
    "error_in_stream": "the provider reported an error after its answer had begun",
    "failed": "the attempt left no reason",
    "handed-back": "the worker was stopped and gave the turn to another",
    "incomplete": "the answer has no end",
    "malformed": "the answer is not of the required form",
    "model_off": "the worker was started without a model",
    "rate_limited": "the provider takes no more requests for now",
    "resolver_failed": "the resolver answered with an error",
    "resolver_malformed": "the resolver's answer is not one",
    "resolver_timeout": "the resolver did not answer in time",
    "resolver_unreachable": "the resolver could not be reached",
    "response_format_refused": "the provider refused the schema of the answer",
    "rounds-exhausted": "the model called tools beyond the last round",
    "server_error": "the provider failed",
    "timeout_connect": "the provider could not be reached in time",
    "timeout_first_token": "the answer did not begin in time",
    "timeout_stalled": "the answer stopped for too long",
    "timeout_total": "the answer took too long as a whole",
    "too_long": "the answer is longer than an event may be",
    "tools_failed": "a tool server answered with an error",
    "tools_not_offered": "the answer only calls tools that nobody offered, and has no text",
    "tools_not_started": "the program of a tool server is missing, or ends before it answers",
    "tools_timeout": "a tool server did not answer in time",
    "tools_unknown": "a tool server lacks a tool that the blueprint names",
    "tools_unreachable": "a tool server could not be reached",
    "unauthorised": "the provider does not accept the key",
    "unknown_model": "the provider has no such model",
    "withheld": "a guard withheld the text of a summary",
}
"""What each code says; a code of a refused request means there what it means as a refusal."""
