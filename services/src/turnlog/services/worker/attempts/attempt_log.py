"""Log messages of the worker about unusual answers, without their texts."""

from __future__ import annotations

from collections import Counter

import structlog

from turnlog.events.model.call_events import AttemptFault
from turnlog.events.model.manifest import Manifest
from turnlog.projections.structured_output.json_repair import InvalidAnswer
from turnlog.services.worker.attempts.active_attempt import ActiveAttempt
from turnlog.services.worker.attempts.answer_parser import ParsedAnswer
from turnlog.services.worker.model.model_types import FinishedAnswer

_log = structlog.get_logger("turnlog.worker")


def log_answer(speaking: ActiveAttempt, end: FinishedAnswer, said: ParsedAnswer) -> None:
    """Log an answer that was cut short or repaired."""
    call = _describe_attempt(speaking)
    if end.finish_reason == "length":
        _log.warning("answer-cut-short", **call)
    if said.repairs:
        _log.debug("answer-mended", repairs=said.repairs, **call)


def log_exclusions(speaking: ActiveAttempt, manifest: Manifest) -> None:
    """Log how many parts of a prompt are left out, by rule."""
    rules = Counter(part.rule for part in manifest.parts if not part.is_included)
    if rules:
        _log.debug("left-out", rules=dict(rules), **_describe_attempt(speaking))


def log_malformed(speaking: ActiveAttempt, fault: InvalidAnswer) -> None:
    """Log that an answer cannot be parsed."""
    _log.error("answer-malformed", why=str(fault), **_describe_attempt(speaking))


def log_retry(speaking: ActiveAttempt, fault: AttemptFault, seconds: float) -> None:
    """Log that an attempt failed, and when the next one begins."""
    _log.warning("attempt-failed", code=fault.code, next_in=seconds, **_describe_attempt(speaking))


def _describe_attempt(speaking: ActiveAttempt) -> dict[str, str]:
    return {"session": speaking.session, "call": speaking.attempt.call}
