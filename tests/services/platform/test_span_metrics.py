"""Metrics are taken from spans: each operation once, by labels that have few values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from tests.support.processes.measured_figures import MeasuredFigures
from tests.support.sessions.prompt_assembly import (
    assemble_next_prompt,
    open_with_blueprint,
    parse_blueprint,
)
from turnlog.projections.testing import submit_turn
from turnlog.services.platform.telemetry.span_metrics import SpanMetrics
from turnlog.services.platform.telemetry.traces import (
    Tracing,
    record_failure,
    record_prompt,
    record_turn_blueprint,
)


@dataclass(frozen=True, slots=True)
class MeasuredTracing:
    """Spans that are measured in memory."""

    figures: MeasuredFigures = field(default_factory=MeasuredFigures)
    tracing: Tracing = field(init=False)

    def __post_init__(self) -> None:
        provider = TracerProvider()
        provider.add_span_processor(SpanMetrics(self.figures.meter))
        object.__setattr__(self, "tracing", Tracing(provider.get_tracer("test"), provider))

    def list_points(self, name: str) -> list[tuple[Mapping[str, Any], Any]]:
        """Return labels and figures of every series of a metric."""
        return self.figures.list_points(name)


def run_tool(measured: MeasuredTracing, session: str, code: str | None = None) -> None:
    with measured.tracing.start_tool_span(session, "look", f"id-of-{session}") as span:
        if code is not None:
            record_failure(span, code)


def test_hundred_sessions_have_as_many_series_as_one() -> None:
    measured = MeasuredTracing()
    for number in range(100):
        with measured.tracing.start_turn_span(f"s{number}", number, None):
            record_turn_blueprint("guide", 1, "chat")
            run_tool(measured, f"s{number}")
    ((tool, point),) = measured.list_points("gen_ai.execute_tool.duration")
    assert tool == {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
    assert point.count == 100
    ((turn, point),) = measured.list_points("gen_ai.workflow.duration")
    assert turn == {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": "guide"}
    assert point.count == 100


def test_delivery_of_a_turn_that_is_over_is_not_counted_as_a_turn() -> None:
    measured = MeasuredTracing()
    with measured.tracing.start_turn_span("s", 1, None):
        record_turn_blueprint("guide", 1, "chat")
    with measured.tracing.start_turn_span("s", 1, None):
        pass
    with measured.tracing.start_turn_span("s", 2, None) as span:
        record_failure(span, "unknown-blueprint")
    points = measured.list_points("gen_ai.workflow.duration")
    assert [(labels.get("error.type"), point.count) for labels, point in points] == [
        (None, 1),
        ("unknown-blueprint", 1),
    ]


def test_failure_is_a_series_of_its_own_with_its_code() -> None:
    measured = MeasuredTracing()
    run_tool(measured, "s")
    run_tool(measured, "s", "tool_failed")
    codes = [
        labels.get("error.type")
        for labels, _ in measured.list_points("gen_ai.execute_tool.duration")
    ]
    assert sorted(codes, key=str) == [None, "tool_failed"]


@pytest.mark.parametrize("name", ["gen_ai.client.operation.duration", "gen_ai.client.token.usage"])
def test_figure_has_the_trace_that_it_came_from_as_its_exemplar(name: str) -> None:
    measured = MeasuredTracing()
    with measured.tracing.start_chat_span("s", "1.1", "openai/gpt-4o-mini") as span:
        span.set_attribute("gen_ai.usage.input_tokens", 12)
    context = span.get_span_context()
    ((_, point),) = measured.list_points(name)
    (exemplar,) = point.exemplars
    assert (exemplar.trace_id, exemplar.span_id) == (context.trace_id, context.span_id)
    assert not exemplar.filtered_attributes


def test_turns_in_the_hands_of_a_worker_are_counted() -> None:
    measured = MeasuredTracing()
    with measured.tracing.start_turn_span("a", 1, None):
        with measured.tracing.start_turn_span("b", 1, None):
            ((_, both),) = measured.list_points("turnlog.turns.running")
        ((_, one),) = measured.list_points("turnlog.turns.running")
    ((_, none),) = measured.list_points("turnlog.turns.running")
    assert (both.value, one.value, none.value) == (2, 1, 0)


WINDOW = """\
blueprint: guide
version: 1
layers:
  persona: {file: persona.md}
calls:
  reply:
    messages: [{system: [persona]}, {user: [input]}]
    budget: window
budget: {window: {tokens: 40, ladder: [{trim: {layer: persona, chars: [60]}}]}}
profiles: {chat: {default: true, call: reply}}
"""


def test_prompt_is_measured_by_component_with_its_budget_and_its_cuts() -> None:
    blueprint, files = parse_blueprint(WINDOW), {"persona": "Be brief. " * 40}
    session = open_with_blueprint(blueprint, files).apply_steps(submit_turn("The fare?"))
    manifest = assemble_next_prompt(session, blueprint, files).manifest
    measured = MeasuredTracing()
    with measured.tracing.start_chat_span("s", "1.1", "openai/gpt-4o-mini") as span:
        record_prompt(span, manifest)
    tokens = {
        labels["turnlog.component"]: point.sum
        for labels, point in measured.list_points("turnlog.context.tokens")
    }
    expected: dict[str, int] = {}
    for part in manifest.parts:
        expected[part.component] = expected.get(part.component, 0) + part.tokens
    assert tokens == expected
    ((_, share),) = measured.list_points("turnlog.context.budget_share")
    assert share.sum == manifest.tokens / 40
    ((cut, count),) = measured.list_points("turnlog.context.cuts")
    assert (cut["turnlog.trim_step"], count.value) == ("trim", 1)
