"""Codes of turns and attempts that failed: `code` of `turn-failed`, `attempt-ended`, `failed`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class FailureText:
    """What the code of a failed turn or attempt says to people."""

    meaning: str
    """What happened."""
    action: str
    """What its reader does about it."""


TURN_FAILURES: Final[Mapping[str, FailureText]] = {
    "bad_request": FailureText(
        "the provider does not understand the request",
        "compare model and `parameters` of the call with what the provider takes",
    ),
    "bug": FailureText(
        "each worker that handled the turn ran into an error of Turnlog itself",
        "report what the workers logged as `turn-failed-unexpectedly`",
    ),
    "check_failed": FailureText(
        "a safety check raised an error, so nobody knows whether the text may be shown",
        "read the worker's log for what the check raised",
    ),
    "child-failed": FailureText(
        "a child of the coordinator gave no reply, and the policy lets the turn fail",
        "read the child session, then submit the turn again",
    ),
    "claims-exhausted": FailureText(
        "workers claimed the turn as often as they may and ended each time",
        "read the workers' logs for why they end, then submit the turn again",
    ),
    "content_filtered": FailureText(
        "the provider refused to answer what was asked",
        "reword the turn, or exclude the turns that the filter objects to",
    ),
    "context_overflow": FailureText(
        "the prompt is longer than the model takes, and could not be shortened enough",
        "add a step to the ladder of the call's budget, or choose a model with more room",
    ),
    "corrupt": FailureText(
        "stored bytes that the prompt needs are not what Turnlog wrote",
        "run `turnlog verify` and restore the store from a back-up",
    ),
    "deadline": FailureText(
        "the turn was not answered within its time",
        "submit the turn again, or raise `deadline_seconds` of the profile",
    ),
    "disconnected": FailureText(
        "the connection to the provider broke off",
        "submit the turn again; if it stays, look at the network and proxies to the provider",
    ),
    "empty": FailureText(
        "the answer has no text",
        "submit the turn again",
    ),
    "error_in_stream": FailureText(
        "the provider reported an error after its answer had begun",
        "submit the turn again; if it stays, look at the provider's status",
    ),
    "failed": FailureText(
        "the attempt left no reason",
        "read the worker's log",
    ),
    "handed-back": FailureText(
        "the worker was stopped and gave the turn to another",
        "nothing: another worker takes the turn",
    ),
    "incomplete": FailureText(
        "the answer has no end",
        "submit the turn again",
    ),
    "knowledge_unavailable": FailureText(
        "the knowledge could not be searched",
        "submit the turn again; if it stays, see whether the projector runs and has caught up",
    ),
    "malformed": FailureText(
        "the answer is not of the required form",
        "look at what the attempt wrote; another model or a simpler schema may help",
    ),
    "model_off": FailureText(
        "the worker was started without a model",
        "start the worker with a model and its key",
    ),
    "out_of_credit": FailureText(
        "nothing is left to pay the provider with",
        "pay the provider, or use another model, then submit the turn again",
    ),
    "quota-exceeded": FailureText(
        "a limit of the user is used up, and nothing answers the turn without a model",
        "wait until the limit resets, or have it raised, then submit the turn again",
    ),
    "rate_limited": FailureText(
        "the provider takes no more requests for now",
        "submit the turn later, or ask the provider for a higher limit",
    ),
    "resolver_failed": FailureText(
        "the resolver answered with an error",
        "read the resolver's log",
    ),
    "resolver_malformed": FailureText(
        "the resolver's answer is not one",
        "correct what the resolver answers",
    ),
    "resolver_timeout": FailureText(
        "the resolver did not answer in time",
        "submit the turn again; if it stays, look at what the resolver waits for",
    ),
    "resolver_unreachable": FailureText(
        "the resolver could not be reached",
        "start the resolver, or correct its address in the blueprint",
    ),
    "response_format_refused": FailureText(
        "the provider refused the schema of the answer",
        "do what the cause says, or let the prompt state the schema",
    ),
    "rounds-exhausted": FailureText(
        "the model called tools beyond the last round",
        "raise `max_rounds` of the profile, or tell the model when to stop",
    ),
    "server_error": FailureText(
        "the provider failed",
        "submit the turn again; if it stays, look at the provider's status",
    ),
    "timeout_connect": FailureText(
        "the provider could not be reached in time",
        "submit the turn again; if it stays, look at the network to the provider",
    ),
    "timeout_first_token": FailureText(
        "the answer did not begin in time",
        "submit the turn again; if it stays, look at the provider's status",
    ),
    "timeout_stalled": FailureText(
        "the answer stopped for too long",
        "submit the turn again",
    ),
    "timeout_total": FailureText(
        "the answer took too long as a whole",
        "ask for a shorter answer, or use a faster model",
    ),
    "too_long": FailureText(
        "the answer is longer than an event may be",
        "ask for a shorter answer",
    ),
    "tools_failed": FailureText(
        "a tool server answered with an error",
        "run `turnlog tools check`, and read the server's last lines in the cause",
    ),
    "tools_not_offered": FailureText(
        "the answer only calls tools that nobody offered, and has no text",
        "name the tools in the prompt, or offer the tool that was called",
    ),
    "tools_not_started": FailureText(
        "the program of a tool server is missing, or ends before it answers",
        "run `turnlog tools check`, and install or correct the program",
    ),
    "tools_timeout": FailureText(
        "a tool server did not answer in time",
        "run `turnlog tools check`, and look at what the server waits for",
    ),
    "tools_unknown": FailureText(
        "a tool server lacks a tool that the blueprint names",
        "run `turnlog tools check`, and correct the name in the blueprint",
    ),
    "tools_unreachable": FailureText(
        "a tool server could not be reached",
        "start the tool server, or correct its address",
    ),
    "unauthorised": FailureText(
        "the provider does not accept the key",
        "set the provider's key in the worker's environment",
    ),
    "unknown_model": FailureText(
        "the provider has no such model",
        "correct the model of the profile, or `TURNLOG_MODEL`",
    ),
    "withheld": FailureText(
        "a guard withheld the text of a summary",
        "look at the rule that the cause names",
    ),
}
"""The text of each code; a code of a refused request means there what it means as a refusal."""
