from __future__ import annotations

from turnlog.services.worker.model.exchange import Finished, FinishReason, Usage
from turnlog.services.worker.model.failures import ModelFailure
from turnlog.services.worker.model.finish import finish_reason
from turnlog.services.worker.model.reading import Reading

_FILTERED: frozenset[FinishReason] = frozenset({"content_filter", "safety", "recitation"})


def ending(reading: Reading, *, said: str | None, usage: Usage | None, asked: str) -> Finished:
    """Return the end of an answer, or fail with `empty` or `incomplete`.

    `reason_name` is the finish reason in the provider's words. An answer that a filter stopped
    before its first word is an end as well, and the finish reason says which filter.
    """
    reason = None if said is None else finish_reason(said)
    silent = not reading.spoken and not reading.tool_calls
    if silent and (said is None or (usage is None and reason not in _FILTERED)):
        raise ModelFailure("empty", "it ended with nothing said")
    if reason is None:
        raise ModelFailure("incomplete", f"it ended with {_named(said)}")
    return Finished(
        # Some providers report `stop` for an answer that requests tools.
        finish_reason="tool_calls" if reason == "stop" and reading.tool_calls else reason,
        tool_calls=reading.tool_calls,
        usage=usage,
        model=reading.model or asked,
        response_id=reading.response_id,
    )


def _named(said: str | None) -> str:
    return "no finish reason" if said is None else f"the finish reason {said[:64]!r}"
