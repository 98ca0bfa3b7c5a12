"""Log messages of the worker about unusual answers, without their texts."""

from __future__ import annotations

from collections import Counter

import structlog

from turnlog.events.call import Fault
from turnlog.events.manifest import Manifest
from turnlog.projections.structured.finding import Unfit
from turnlog.services.worker.attempt import Speaking
from turnlog.services.worker.model.exchange import Finished
from turnlog.services.worker.understanding import Understood

_log = structlog.get_logger("turnlog.worker")


def answered(speaking: Speaking, end: Finished, said: Understood) -> None:
    """Log an answer that was cut short or repaired."""
    call = _of(speaking)
    if end.finish_reason == "length":
        _log.warning("answer-cut-short", **call)
    if said.repairs:
        _log.debug("answer-mended", repairs=said.repairs, **call)


def left_out(speaking: Speaking, manifest: Manifest) -> None:
    """Log how many parts of a prompt are left out, by rule."""
    rules = Counter(part.rule for part in manifest.parts if not part.kept)
    if rules:
        _log.debug("left-out", rules=dict(rules), **_of(speaking))


def malformed(speaking: Speaking, fault: Unfit) -> None:
    """Log that an answer cannot be parsed."""
    _log.error("answer-malformed", why=str(fault), **_of(speaking))


def retrying(speaking: Speaking, fault: Fault, seconds: float) -> None:
    """Log that an attempt failed, and when the next one begins."""
    _log.warning("attempt-failed", code=fault.code, next_in=seconds, **_of(speaking))


def _of(speaking: Speaking) -> dict[str, str]:
    return {"session": speaking.session, "call": speaking.attempt.call}
