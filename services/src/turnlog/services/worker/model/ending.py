from __future__ import annotations

from turnlog.services.worker.model.exchange import FinishedAnswer, FinishReason, ModelUsage
from turnlog.services.worker.model.failures import ModelFailure
from turnlog.services.worker.model.finish import map_finish_reason
from turnlog.services.worker.model.reading import ChunkReader

_FILTER_REASONS: frozenset[FinishReason] = frozenset({"content_filter", "safety", "recitation"})


def build_finished(reading: ChunkReader, *, reason_name: str | None, usage: ModelUsage | None, requested_model: str) -> FinishedAnswer:
    """Return the end of an answer, or fail with `empty` or `incomplete`.

    `reason_name` is the finish reason in the provider's words. An answer that a filter stopped
    before its first word is an end as well, and the finish reason says which filter.
    """
    reason = None if reason_name is None else map_finish_reason(reason_name)
    silent = not reading.spoken and not reading.tool_calls
    if silent and (reason_name is None or (usage is None and reason not in _FILTER_REASONS)):
        raise ModelFailure("empty", "it ended with nothing said")
    if reason is None:
        raise ModelFailure("incomplete", f"it ended with {_describe_reason(reason_name)}")
    return FinishedAnswer(
        # Some providers report `stop` for an answer that requests tools.
        finish_reason="tool_calls" if reason == "stop" and reading.tool_calls else reason,
        tool_calls=reading.tool_calls,
        usage=usage,
        model=reading.model or requested_model,
        response_id=reading.response_id,
    )


def _describe_reason(reason_name: str | None) -> str:
    return "no finish reason" if reason_name is None else f"the finish reason {reason_name[:64]!r}"
