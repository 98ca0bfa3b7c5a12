"""Traces: one a turn, from the request through the log and the worker to the read models.

Every name of the GenAI conventions that Turnlog uses is in this module, since they still move.
No prompt, no reply and no secret ever becomes an attribute. Without an endpoint nothing is
recorded, and the trace context of callers is passed on all the same.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from opentelemetry import trace
from opentelemetry.propagate import inject
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, NoOpTracerProvider, Span, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from turnlog.projections.window.call import provider_of

_W3C: Final = TraceContextTextMapPropagator()
_HEADER: Final = "traceparent"


def traceparent() -> str | None:
    """Spell the trace that is under way, if there is one."""
    carrier: dict[str, str] = {}
    inject(carrier)
    return carrier.get(_HEADER)


@dataclass(frozen=True, slots=True)
class Tracing:
    """Starts the spans of one process."""

    tracer: Tracer
    provider: TracerProvider | None = None

    @contextmanager
    def request(self, name: str, parent: str | None) -> Generator[Span]:
        """Span of a request to the gateway; `name` is the method and the route's template."""
        with self._span(name, SpanKind.SERVER, parent, {}) as span:
            yield span

    @contextmanager
    def turn(self, session: str, turn: int, parent: str | None) -> Generator[Span]:
        """Span of a worker answering a turn."""
        attributes = {**_conversation(session), "turnlog.turn": turn}
        attributes |= {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": "turn"}
        with self._span("invoke_workflow turn", SpanKind.INTERNAL, parent, attributes) as span:
            yield span

    @contextmanager
    def chat(self, session: str, call: str, model: str) -> Generator[Span]:
        """Span of one attempt of a call, within the span of its turn."""
        attributes = {
            **_conversation(session),
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider_of(model),
            "gen_ai.request.model": model,
            "gen_ai.request.stream": True,
            "turnlog.call": call,
        }
        with self._span(f"chat {model}", SpanKind.CLIENT, None, attributes) as span:
            yield span

    @contextmanager
    def projected(self, causes: Iterable[str | None]) -> Generator[Span]:
        """Span of a batch of events becoming rows; linked to their traces, part of none."""
        found = {cause: _context(cause) for cause in causes if cause}
        links = [Link(context) for context in found.values() if context.is_valid]
        with self.tracer.start_as_current_span("project events", links=links) as span:
            yield span

    @contextmanager
    def _span(
        self, name: str, kind: SpanKind, parent: str | None, attributes: Mapping[str, str | int]
    ) -> Generator[Span]:
        context = _W3C.extract({_HEADER: parent}) if parent else None
        with self.tracer.start_as_current_span(
            name, context, kind=kind, attributes=dict(attributes)
        ) as span:
            yield span

    def shut_down(self) -> None:
        """Send what is left; waits a bounded time for an exporter that is out of reach."""
        if self.provider:
            self.provider.shutdown()


def _conversation(session: str) -> dict[str, str | int]:
    return {"gen_ai.conversation.id": session, "session.id": session}


def _context(cause: str) -> trace.SpanContext:
    return trace.get_current_span(_W3C.extract({_HEADER: cause})).get_span_context()


class Tokens(Protocol):
    """Tokens of an attempt, as a provider counted them."""

    @property
    def input_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...


def note_answer(span: Span, finish: str, usage: Tokens | None) -> None:
    """Put what an attempt took on its span."""
    span.set_attribute("gen_ai.response.finish_reasons", [finish])
    if usage is not None:
        span.set_attribute("gen_ai.usage.input_tokens", usage.input_tokens)
        span.set_attribute("gen_ai.usage.output_tokens", usage.output_tokens)


def note_failure(span: Span, code: str) -> None:
    """Mark a span as failed, by code alone."""
    span.set_status(StatusCode.ERROR, code)
    span.set_attribute("error.type", code)


def tracing(service: str, endpoint: str | None) -> Tracing:
    """Set up the traces of a process; without an endpoint they go nowhere."""
    if endpoint is None:
        return Tracing(NoOpTracerProvider().get_tracer("turnlog"))
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - half a second that nobody needs without an endpoint
        OTLPSpanExporter,
    )

    return exporting(service, BatchSpanProcessor(OTLPSpanExporter(f"{endpoint}/v1/traces")))


def exporting(service: str, processor: BatchSpanProcessor) -> Tracing:
    """Set up traces that go through a span processor."""
    provider = TracerProvider(resource=Resource.create({"service.name": f"turnlog-{service}"}))
    provider.add_span_processor(processor)
    return Tracing(provider.get_tracer("turnlog"), provider)
