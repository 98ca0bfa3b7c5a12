"""Traces: one for each turn, from the request through the log and the worker to the read models.

All names of the OpenTelemetry GenAI conventions that Turnlog uses are in this room, because the
conventions still change. No prompt, reply or secret becomes an attribute. Where nothing is
exported nothing is recorded, but the trace context of callers is still passed on.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from opentelemetry import trace
from opentelemetry.propagate import inject
from opentelemetry.trace import NoOpTracerProvider, Span, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from turnlog.events.model.manifest import Manifest
from turnlog.projections.prompt.assembly_inputs import parse_provider
from turnlog.projections.prompt.manifest_reports import sum_component_tokens
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

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_W3C: Final = TraceContextTextMapPropagator()

_HEADER: Final = "traceparent"


def get_traceparent() -> str | None:
    """Return the W3C `traceparent` of the current span, or None."""
    carrier: dict[str, str] = {}
    inject(carrier)
    return carrier.get(_HEADER)


@dataclass(frozen=True, slots=True)
class Tracing:
    """Starts the spans of one process."""

    tracer: Tracer
    provider: TracerProvider | None = None

    @contextmanager
    def start_request_span(self, name: str, parent: str | None) -> Generator[Span]:
        """Start the span of a gateway request; `name` is the method and the route template."""
        with self._start_span(name, SpanKind.SERVER, parent, {}) as span:
            yield span

    @contextmanager
    def start_turn_span(self, session: str, turn: int, parent: str | None) -> Generator[Span]:
        """Start the span of a worker that answers a turn."""
        attributes = {**_build_session_attributes(session), "turnlog.turn": turn}
        attributes[OPERATION] = "invoke_workflow"
        with self._start_span(
            "invoke_workflow turn", SpanKind.INTERNAL, parent, attributes
        ) as span:
            yield span

    @contextmanager
    def start_chat_span(self, session: str, call: str, model: str) -> Generator[Span]:
        """Start the span of one attempt of a call, within the span of its turn.

        The conventions have a model by its provider's name; litellm's is `turnlog.model`.
        """
        name = model.partition("/")[2] or model
        attributes = {
            **_build_session_attributes(session),
            OPERATION: "chat",
            "gen_ai.provider.name": parse_provider(model),
            "gen_ai.request.model": name,
            "gen_ai.request.stream": True,
            "turnlog.call": call,
            "turnlog.model": model,
        }
        with self._start_span(f"chat {name}", SpanKind.CLIENT, None, attributes) as span:
            yield span

    @contextmanager
    def start_tool_span(self, session: str, tool: str, call_id: str) -> Generator[Span]:
        """Start the span of one run of a tool, within the span of its turn."""
        attributes = {
            **_build_session_attributes(session),
            OPERATION: "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.id": call_id,
        }
        with self._start_span(f"execute_tool {tool}", SpanKind.INTERNAL, None, attributes) as span:
            yield span

    @contextmanager
    def start_retrieval_span(self, session: str, retrieval: str) -> Generator[Span]:
        """Start the span of one search of the knowledge, within the span of its turn."""
        attributes = {
            **_build_session_attributes(session),
            OPERATION: "retrieval",
            "gen_ai.data_source.id": retrieval,
        }
        with self._start_span(f"retrieval {retrieval}", SpanKind.CLIENT, None, attributes) as span:
            yield span

    @contextmanager
    def start_projection_span(self) -> Generator[Span]:
        """Start the span of a projected batch of events."""
        with self.tracer.start_as_current_span("project events") as span:
            yield span

    @contextmanager
    def _start_span(
        self, name: str, kind: SpanKind, parent: str | None, attributes: Mapping[str, str | int]
    ) -> Generator[Span]:
        context = _W3C.extract({_HEADER: parent}) if parent else None
        with self.tracer.start_as_current_span(
            name, context, kind=kind, attributes=dict(attributes)
        ) as span:
            yield span

    def close(self) -> None:
        """Export the remaining spans; waits a bounded time for an unreachable exporter."""
        if self.provider:
            self.provider.shutdown()


def _build_session_attributes(session: str) -> dict[str, str | int]:
    return {"gen_ai.conversation.id": session, "session.id": session}


def add_links(span: Span, causes: Iterable[str]) -> None:
    """Link a span to the traces of what it handles."""
    if span.is_recording():
        for context in map(_extract_span_context, causes):
            if context.is_valid:
                span.add_link(context)


def _extract_span_context(cause: str) -> trace.SpanContext:
    return trace.get_current_span(_W3C.extract({_HEADER: cause})).get_span_context()


def record_response(span: Span, status: int) -> None:
    """Record the status of the response to a request; the span of a fault is marked as failed."""
    span.set_attribute("http.response.status_code", status)
    if status >= 500:  # noqa: PLR2004 - the server errors of HTTP
        span.set_status(StatusCode.ERROR)
        span.set_attribute("error.type", str(status))


def record_route(span: Span, method: str, route: str | None) -> None:
    """Record the method and the template of the route, of which the name of the span consists."""
    span.set_attribute("http.request.method", method)
    if route is not None:
        span.set_attribute("http.route", route)
        span.update_name(f"{method} {route}")


class CountedTokens(Protocol):
    """Token counts of an attempt, as the provider reported them."""

    @property
    def input_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...
    @property
    def cached_input_tokens(self) -> int: ...
    @property
    def cache_write_tokens(self) -> int: ...
    @property
    def reasoning_tokens(self) -> int: ...


class ReportedAnswer(Protocol):
    """The end of an answer, as the provider sent it."""

    @property
    def finish_reason(self) -> str: ...
    @property
    def usage(self) -> CountedTokens | None: ...
    @property
    def model(self) -> str: ...
    @property
    def response_id(self) -> str | None: ...


def record_prompt(span: Span, manifest: Manifest | None) -> None:
    """Record the kind of a call, the tokens of its prompt by component, and what cut it."""
    if manifest is None or not span.is_recording():
        return
    components = sum_component_tokens(manifest.parts)
    attributes: dict[str, str | int | Sequence[str] | Sequence[int]] = {
        CALL_KIND: manifest.kind,
        TOKENS: manifest.tokens,
        COMPONENTS: [*components],
        COMPONENT_TOKENS: [*components.values()],
        CUTS: [each.step for each in manifest.steps],
    }
    if manifest.budget is not None:
        attributes[BUDGET] = manifest.budget
    span.set_attributes(attributes)


def record_answer(span: Span, answer: ReportedAnswer, first_chunk: int | None) -> None:
    """Record how an answer ended, what it took, and the milliseconds to its first piece."""
    attributes: dict[str, str | int | float | Sequence[str]] = {
        "gen_ai.response.finish_reasons": [answer.finish_reason],
        "gen_ai.response.model": answer.model,
    }
    if answer.response_id is not None:
        attributes["gen_ai.response.id"] = answer.response_id
    if first_chunk is not None:
        attributes["gen_ai.response.time_to_first_chunk"] = first_chunk / 1000
    if (usage := answer.usage) is not None:
        attributes |= {
            f"gen_ai.usage.{name}": getattr(usage, field) for name, field in USAGE_FIGURES.items()
        }
    span.set_attributes(attributes)


def record_withheld_answer(span: Span) -> None:
    """Record that a rule withheld an answer before it was whole."""
    span.set_attribute("gen_ai.response.finish_reasons", ["safety"])


def record_failure(span: Span, code: str) -> None:
    """Mark a span as failed, with the error code only."""
    span.set_status(StatusCode.ERROR, code)
    span.set_attribute("error.type", code)


def record_turn_blueprint(blueprint: str, version: int, profile: str) -> None:
    """Name the current span, which is that of a turn, by its blueprint."""
    span = trace.get_current_span()
    span.update_name(f"invoke_workflow {blueprint}")
    span.set_attributes(
        {
            "gen_ai.workflow.name": blueprint,
            "turnlog.blueprint.version": version,
            "turnlog.profile": profile,
        }
    )


def record_turn_failure(code: str) -> None:
    """Mark the current span, which is that of a turn, as failed."""
    record_failure(trace.get_current_span(), code)


def create_tracing(service: str, endpoint: str | None, *, is_measured: bool = False) -> Tracing:
    """Create the tracing of a process, whose spans are exported to an endpoint, and measured.

    Without either there are no spans.
    """
    if endpoint is None and not is_measured:
        return Tracing(NoOpTracerProvider().get_tracer("turnlog"))
    # What most processes do without; see there.
    from turnlog.services.platform.telemetry.exporters import (  # noqa: PLC0415
        create_tracer_provider,
    )

    provider = create_tracer_provider(service, endpoint)
    return Tracing(provider.get_tracer("turnlog"), provider)
