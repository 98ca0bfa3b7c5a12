"""The trace that a log line belongs to."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from opentelemetry import trace


def add_trace_ids(
    logger: object, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Add `trace_id` and `span_id` to a line that is logged within a span, or for a caller of one.

    Where no spans are exported, they are those that the caller sent.
    """
    del logger, method
    context = trace.get_current_span().get_span_context()
    if context.is_valid:
        event["trace_id"] = trace.format_trace_id(context.trace_id)
        event["span_id"] = trace.format_span_id(context.span_id)
    return event
