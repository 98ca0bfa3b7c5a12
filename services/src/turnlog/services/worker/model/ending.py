"""Whether an answer that ended is an answer.

A stream that stops is not one that finished: without a reason to have stopped, or with nothing in
it, it is a failure, however cleanly the connection closed.
"""

from __future__ import annotations

from turnlog.services.worker.model.exchange import Finished, FinishReason, Usage
from turnlog.services.worker.model.failures import ModelFailure
from turnlog.services.worker.model.finish import finish_reason
from turnlog.services.worker.model.reading import Reading

_FILTERED: frozenset[FinishReason] = frozenset({"content_filter", "safety", "recitation"})


def ending(reading: Reading, *, said: str | None, usage: Usage | None, asked: str) -> Finished:
    """The end of an answer; `said` is the provider's finish reason, `asked` the model's name.

    Fails with `empty` or `incomplete`. An answer that a filter stopped before its first word is an
    end all the same, and the reason says which.
    """
    reason = None if said is None else finish_reason(said)
    silent = not reading.spoken and not reading.tool_calls
    if silent and (said is None or (usage is None and reason not in _FILTERED)):
        raise ModelFailure("empty", "it ended with nothing said")
    if reason is None:
        raise ModelFailure("incomplete", f"it ended with {_named(said)}")
    return Finished(
        # Some providers say `stop` of an answer that asks for tools.
        finish_reason="tool_calls" if reason == "stop" and reading.tool_calls else reason,
        tool_calls=reading.tool_calls,
        usage=usage,
        model=reading.model or asked,
        response_id=reading.response_id,
    )


def _named(said: str | None) -> str:
    return "no finish reason" if said is None else f"the finish reason {said[:64]!r}"
