"""Row X10: one trace for each turn of a shipped blueprint, from the client to the rows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio

from tests.e2e.watching.trace_collector import CollectedSpan, TraceCollector, run_collector
from tests.support.processes.process_host import ProcessHost
from tests.support.processes.turnlog_up import run_turnlog_up
from tests.support.servers.model_behaviours import ModelAnswer, ModelRefusal
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.envelope import RecordedEvent

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("a service, a browser and a collector of traces start"),
]

TRACE = "0af7651916cd43dd8448eb211c80319c"
REFUSED = "1bf7651916cd43dd8448eb211c80319d"
"""The trace of a turn that fails."""
SPAN = "b7ad6b7169203331"
ASKED, REPLIED = "What is nobody to read?", "Nothing of this."
CHAT = "chat gpt-4o-mini"
TURN = "invoke_workflow assistant"


@dataclass(frozen=True, slots=True, repr=False)
class TracedTurn:
    """What was collected of one turn that was retried, and the events of its session."""

    collector: TraceCollector
    session: str
    events: list[RecordedEvent]

    def find_spans(self, service: str, name: str) -> list[CollectedSpan]:
        """Find the spans of one name that are of the turn."""
        return [span for span in self.collector.find_spans(service, name) if span.trace == TRACE]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def traced(host: ProcessHost, provider: OpenAIServer) -> AsyncIterator[TracedTurn]:
    with run_collector() as collector:
        async with run_turnlog_up(host, variables={"TURNLOG_OTLP_ENDPOINT": collector.url}) as up:
            session = await up.service.open_session("assistant")
            provider.queue_behaviours(
                ModelRefusal(status=500, message=ASKED), ModelAnswer(tokens=(REPLIED,))
            )
            answer = await up.service.http.post(
                f"/v1/sessions/{session}/turns?wait=150",
                json={"text": ASKED},
                headers={"traceparent": f"00-{TRACE}-{SPAN}-01"},
            )
            assert answer.json()["reply"] == REPLIED
            events = await up.service.list_events(session)
            provider.queue_behaviours(ModelRefusal(status=401, message=ASKED))
            path = f"/v1/sessions/{session}/turns?wait=150"
            refused = await up.service.http.post(
                path, json={"text": ASKED}, headers={"traceparent": f"00-{REFUSED}-{SPAN}-01"}
            )
            assert refused.json()["status"] == "failed"
            assert (await up.service.http.get("/")).status_code == 200
            # Its rows are written, and the projector's span has arrived.
            await up.service.list_calls(session)
        yield TracedTurn(collector, session, events)


async def test_x10_turn_is_one_trace_that_begins_before_the_gateway(traced: TracedTurn) -> None:
    (request,) = traced.find_spans("gateway", "POST /v1/sessions/{session}/turns")
    # A worker begins a turn again, in a span of its own, when the log was out of its reach.
    turns = traced.find_spans("worker", TURN)
    first, second, _ = chats = traced.collector.find_spans("worker", CHAT)
    assert (request.trace, request.parent) == (TRACE, SPAN)
    assert {(turn.trace, turn.parent) for turn in turns} == {(TRACE, request.id)}
    assert [chat.trace for chat in chats] == [TRACE, TRACE, REFUSED]
    assert {first.parent, second.parent} <= {turn.id for turn in turns}


async def test_x10_every_event_of_a_turn_names_its_trace(traced: TracedTurn) -> None:
    opened, *turn = [recorded.envelope.traceparent or "" for recorded in traced.events]
    assert [each.split("-")[1] for each in turn] == [TRACE] * len(turn)
    assert TRACE not in opened


async def test_x10_projection_spans_link_to_the_traces_of_their_events_without_joining_them(
    traced: TracedTurn,
) -> None:
    spans = traced.collector.find_spans("projector", "project events")
    assert TRACE in {linked for span in spans for linked in span.links}
    assert TRACE not in {span.trace for span in spans}


async def test_x10_spans_have_the_attributes_of_the_conventions(traced: TracedTurn) -> None:
    (request,) = traced.find_spans("gateway", "POST /v1/sessions/{session}/turns")
    assert {name: request.attributes[name] for name in request.attributes if "http." in name} == {
        "http.request.method": "POST",
        "http.route": "/v1/sessions/{session}/turns",
        "http.response.status_code": "200",
    }
    failed, answered = traced.find_spans("worker", CHAT)
    assert failed.attributes["error.type"] == "server_error"
    assert answered.attributes["gen_ai.usage.input_tokens"] == "7"
    assert answered.attributes["gen_ai.usage.output_tokens"] == "2"
    assert answered.attributes["gen_ai.operation.name"] == "chat"
    assert answered.attributes["gen_ai.provider.name"] == "openai"
    assert answered.attributes["gen_ai.request.model"] == "gpt-4o-mini"
    assert answered.attributes["turnlog.model"] == "openai/gpt-4o-mini"
    assert answered.attributes["gen_ai.usage.cache_read.input_tokens"] == "0"
    assert float(answered.attributes["gen_ai.response.time_to_first_chunk"]) > 0
    assert answered.attributes["gen_ai.response.id"]
    turns = traced.find_spans("worker", TURN)
    assert {turn.attributes["gen_ai.operation.name"] for turn in turns} == {"invoke_workflow"}
    assert "assistant" in {turn.attributes.get("gen_ai.workflow.name") for turn in turns}
    for span in (failed, answered, *turns):
        assert span.attributes["gen_ai.conversation.id"] == traced.session


async def test_span_of_a_failed_turn_is_an_error(traced: TracedTurn) -> None:
    turns = traced.collector.find_spans("worker", TURN)
    assert {turn.is_error for turn in turns if turn.trace == TRACE} == {False}
    (failed,) = [turn for turn in turns if turn.trace == REFUSED]
    assert (failed.is_error, failed.attributes["error.type"]) == (True, "unauthorised")


async def test_files_of_the_page_and_health_checks_have_no_spans(traced: TracedTurn) -> None:
    names = {span.name for span in traced.collector.spans if span.service == "turnlog-gateway"}
    assert {name for name in names if " /v1/" not in name} == set()


async def test_x10_metrics_are_sent_beside_the_traces_by_each_process_under_its_own_name(
    traced: TracedTurn,
) -> None:
    metrics = traced.collector.metrics
    assert {each.service for each in metrics} == {"turnlog-all-in-one"}
    assert len({each.instance for each in metrics}) == 1
    assert {
        "gen_ai.client.operation.duration",
        "gen_ai.workflow.duration",
        "http.server.request.duration",
        "turnlog.context.tokens",
        "turnlog.cost",
        "turnlog.queue.depth",
        "turnlog.webhook.deliveries",
    } <= {each.name for each in metrics}


@pytest.mark.promise("P19")
async def test_x10_traces_and_metrics_contain_neither_texts_nor_keys(traced: TracedTurn) -> None:
    spans, metrics = traced.collector.spans, traced.collector.metrics
    trace_text = "".join(each.everything for each in spans)
    trace_text += "".join(each.everything for each in metrics)
    assert traced.session in trace_text
    for secret in (ASKED, REPLIED, "You are a helpful assistant.", "sk-of-nobody"):
        assert secret not in trace_text
