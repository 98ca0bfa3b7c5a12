"""Metrics of a process, taken from its spans.

A span already has what is measured: how long the work took, what a provider counted, what was cut
of a prompt and how it failed. So nothing is measured twice, and a trace and a metric agree. The
names are those of the OpenTelemetry GenAI conventions where these have one. No label is an id: a
hundred sessions have as many series as one. Requests are measured by the library that serves them.

Only a process that exports imports this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from opentelemetry.context import Context
from opentelemetry.metrics import Counter, Histogram, Meter
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.trace import INVALID_SPAN_CONTEXT, NonRecordingSpan, set_span_in_context
from opentelemetry.util.types import AttributeValue

from turnlog.services.platform.telemetry.span_attributes import (
    BUDGET,
    CALL_KIND,
    COMPONENT_TOKENS,
    COMPONENTS,
    CUTS,
    OPERATION,
    TOKENS,
    USAGE_FIGURES,
)

DURATION_BOUNDS: Final = tuple(2**step / 100 for step in range(14))
"""Seconds; the bounds that the conventions give for operations of models."""

TOKEN_BOUNDS: Final = tuple(4.0**power for power in range(12))
"""Tokens; the bounds that the conventions give."""

SHARE_BOUNDS: Final = (0.1, 0.25, 0.5, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)

_DURATIONS: Final[Mapping[str, str]] = {
    "chat": "gen_ai.client.operation.duration",
    "execute_tool": "gen_ai.execute_tool.duration",
    "retrieval": "gen_ai.client.operation.duration",
    "invoke_workflow": "gen_ai.workflow.duration",
}
"""The histogram of the duration of each operation."""

_LABELS: Final = (
    OPERATION,
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.tool.name",
    "gen_ai.workflow.name",
    CALL_KIND,
    "gen_ai.data_source.id",
    "error.type",
)
"""Attributes of a span that are labels of its metrics; none of them has many values."""

_TOKEN_TYPES: Final[Mapping[str, str]] = {
    "gen_ai.usage.input_tokens": "input",
    "gen_ai.usage.output_tokens": "output",
}

_USAGE: Final = "gen_ai.usage."

_NANOSECONDS: Final = 1e9


class SpanMetrics(SpanProcessor):
    """Measures every span that ends."""

    def __init__(self, meter: Meter) -> None:
        self._durations: dict[str, Histogram] = {
            name: meter.create_histogram(
                name, unit="s", explicit_bucket_boundaries_advisory=DURATION_BOUNDS
            )
            for name in dict.fromkeys(_DURATIONS.values())
        }
        self._first_chunk = meter.create_histogram(
            "gen_ai.client.operation.time_to_first_chunk",
            unit="s",
            explicit_bucket_boundaries_advisory=DURATION_BOUNDS,
        )
        self._token_usage = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            explicit_bucket_boundaries_advisory=TOKEN_BOUNDS,
        )
        self._usage: dict[str, Counter] = {
            f"{_USAGE}{name}": meter.create_counter(
                f"gen_ai.client.inference.usage.{name}", unit="{token}"
            )
            for name in USAGE_FIGURES
        }
        self._context_tokens = meter.create_histogram(
            "turnlog.context.tokens",
            unit="{token}",
            description="Tokens of a prompt by component",
            explicit_bucket_boundaries_advisory=TOKEN_BOUNDS,
        )
        self._budget_share = meter.create_histogram(
            "turnlog.context.budget_share",
            unit="1",
            description="Share of its budget that a prompt takes",
            explicit_bucket_boundaries_advisory=SHARE_BOUNDS,
        )
        self._cuts = meter.create_counter(
            "turnlog.context.cuts", unit="{cut}", description="Trim steps applied to prompts"
        )
        self._running = meter.create_up_down_counter(
            "turnlog.turns.running", unit="{turn}", description="Turns in the hands of a worker"
        )

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002 - the SDK's
        """Count a turn that a worker takes up."""
        if _read_operation(span) == "invoke_workflow":
            self._running.add(1)

    def on_end(self, span: ReadableSpan) -> None:
        """Measure the work of a span."""
        attributes = span.attributes or {}
        operation = _read_operation(span)
        if operation == "invoke_workflow":
            self._running.add(-1)
            if not attributes.keys() & {"gen_ai.workflow.name", "error.type"}:
                return  # The turn was over when it was delivered, such as one that was run ahead.
        if operation in _DURATIONS:
            labels = _select_labels(attributes, _LABELS)
            # By it the SDK samples the exemplars, which lead from a figure to a trace.
            ended = NonRecordingSpan(span.context or INVALID_SPAN_CONTEXT)
            context = set_span_in_context(ended, Context())
            duration = self._durations[_DURATIONS[operation]]
            duration.record(_compute_seconds(span), labels, context)
            if operation == "chat":
                self._record_call(attributes, labels, context)

    def _record_call(
        self,
        attributes: Mapping[str, AttributeValue],
        labels: Mapping[str, AttributeValue],
        context: Context,
    ) -> None:
        """Measure what a call sent, and what its provider counted."""
        first_chunk = attributes.get("gen_ai.response.time_to_first_chunk")
        if isinstance(first_chunk, float):
            self._first_chunk.record(first_chunk, labels, context)
        for name, counter in self._usage.items():
            tokens = attributes.get(name)
            if isinstance(tokens, int):
                counter.add(tokens, labels, context)
                if name in _TOKEN_TYPES:
                    typed = {**labels, "gen_ai.token.type": _TOKEN_TYPES[name]}
                    self._token_usage.record(tokens, typed, context)
        self._record_prompt(attributes, labels, context)

    def _record_prompt(
        self,
        attributes: Mapping[str, AttributeValue],
        labels: Mapping[str, AttributeValue],
        context: Context,
    ) -> None:
        """Measure the prompt of a call, which a retry sends again and counts again."""
        own = {name: labels[name] for name in labels if name != "error.type"}
        components, tokens = attributes.get(COMPONENTS), attributes.get(COMPONENT_TOKENS)
        if isinstance(components, Sequence) and isinstance(tokens, Sequence):
            for component, count in zip(components, tokens, strict=True):
                if isinstance(count, int):
                    component_labels = {**own, "turnlog.component": component}
                    self._context_tokens.record(count, component_labels, context)
        budget, total = attributes.get(BUDGET), attributes.get(TOKENS)
        if isinstance(budget, int) and isinstance(total, int) and budget:
            self._budget_share.record(total / budget, own, context)
        cuts = attributes.get(CUTS)
        if isinstance(cuts, Sequence):
            for step in cuts:
                self._cuts.add(1, {**own, "turnlog.trim_step": step}, context)


def _read_operation(span: ReadableSpan) -> str:
    return str((span.attributes or {}).get(OPERATION, ""))


def _compute_seconds(span: ReadableSpan) -> float:
    return ((span.end_time or 0) - (span.start_time or 0)) / _NANOSECONDS


def _select_labels(
    attributes: Mapping[str, AttributeValue], names: Sequence[str]
) -> dict[str, AttributeValue]:
    return {name: attributes[name] for name in names if name in attributes}
