"""What a worker's log says of answers that are not as they should be, without their texts."""

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
    """Say what is not as usual about an answer."""
    call = _of(speaking)
    if end.finish_reason == "length":
        _log.warning("answer-cut-short", **call)
    if said.repairs:
        _log.debug("answer-mended", repairs=said.repairs, **call)


def left_out(speaking: Speaking, manifest: Manifest) -> None:
    """Say how much does not stand in a prompt, and by which rules."""
    rules = Counter(part.rule for part in manifest.parts if not part.kept)
    if rules:
        _log.debug("left-out", rules=dict(rules), **_of(speaking))


def malformed(speaking: Speaking, fault: Unfit) -> None:
    """Say that an answer cannot be read."""
    _log.error("answer-malformed", why=str(fault), **_of(speaking))


def retrying(speaking: Speaking, fault: Fault, seconds: float) -> None:
    """Say that an attempt failed, and when the next one begins."""
    _log.warning("attempt-failed", code=fault.code, next_in=seconds, **_of(speaking))


def _of(speaking: Speaking) -> dict[str, str]:
    return {"session": speaking.session, "call": speaking.attempt.call}
