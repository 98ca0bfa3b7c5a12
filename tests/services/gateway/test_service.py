"""Blueprints, health, and what the gateway reports of itself."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from jsonschema import Draft202012Validator
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.services.gateway.gateway_service import (
    NO_TRACING,
    LogBackend,
    MemoryBackend,
    RunningGateway,
    build_use_case_parts,
    start_gateway,
    start_service,
)
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused, Unavailable
from turnlog.events.store.memory_log import MemoryLog
from turnlog.projections.store.engine import open_store
from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.services.gateway.app import create_routed_app
from turnlog.services.gateway.dependencies import build_dependencies
from turnlog.services.gateway.main import serve_app
from turnlog.services.platform.process_settings import GatewaySettings
from turnlog.services.platform.telemetry.traces import Tracing

REFERENCE = Path(__file__).parents[3] / "docs/reference/openapi.json"


async def test_blueprints_are_listed_with_their_attribute_and_input_schemas(
    idle: RunningGateway,
) -> None:
    listed = await idle.fetch_json("/v1/blueprints")
    names = [each["blueprint"] for each in listed["blueprints"]]
    assert {"assistant", "clerk"} <= set(names)
    assert listed["faulty"] == []
    clerk = await idle.fetch_json("/v1/blueprints/clerk")
    assert clerk in [clerk | each for each in listed["blueprints"]]
    assert (clerk["version"], clerk["profiles"]) == (3, ["chat", "terse"])
    takes = Draft202012Validator(clerk["attributes"])
    assert takes.is_valid({"desk": "d-1", "language": "lt"})
    for wrong in ({}, {"desk": "no blanks"}, {"desk": "d", "chair": 1}):
        assert not takes.is_valid(wrong)
        form = {"blueprint": "clerk", "attributes": wrong}
        assert (await idle.http.post("/v1/sessions", json=form)).status_code == 422
    assert set(clerk["inputs"]["properties"]) == {"urgency", "tags"}


async def test_unknown_blueprint_returns_404_with_the_nearest_name(idle: RunningGateway) -> None:
    answer = await idle.http.get("/v1/blueprints/clark")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown-blueprint")
    assert answer.json()["fix"] == "write `clerk`"
    for name in ("..", "%2E%2E", "%00", "a%2Fb"):
        assert (await idle.http.get(f"/v1/blueprints/{name}")).status_code in {404, 422}, name


async def test_faulty_blueprint_is_listed_as_faulty_and_opens_no_session(
    idle: RunningGateway, tmp_path: Path
) -> None:
    faulty = tmp_path / "library" / "broken" / "blueprint.yaml"
    faulty.parent.mkdir(parents=True)
    faulty.write_text("blueprint: broken\nversion: one\n")
    settings = idle.settings.model_copy(update={"blueprints": (tmp_path / "library",)})
    async with start_gateway(
        backend=idle.backend,
        store=idle.store,
        signal=idle.projection_signal,
        settings=settings,
        model=idle.model,
    ) as stand:
        listed = await stand.fetch_json("/v1/blueprints")
        assert [each["blueprint"] for each in listed["faulty"]] == ["broken"]
        answer = await stand.http.post("/v1/sessions", json={"blueprint": "broken"})
        assert (answer.status_code, answer.json()["code"]) == (422, "faulty-blueprint")
        lines = [fault["detail"].partition(": ")[0] for fault in answer.json()["faults"]]
        assert "broken/blueprint.yaml:2" in lines


@pytest.mark.promise("P2")
async def test_readyz_reports_a_ready_gateway_with_its_durability(idle: RunningGateway) -> None:
    assert await idle.fetch_json("/healthz") == {"alive": True}
    ready = await idle.fetch_json("/readyz")
    assert (ready["ready"], ready["durability"], ready["checked"]) == (True, "fsync-acked", True)
    assert {name: part["ready"] for name, part in ready["parts"].items()} == {
        "nats": True,
        "database": True,
        "sessions": True,
        "knowledge": True,
        "read_models": True,
    }
    # On the server that tests share, others write to the log as well
    assert ready["lag"] == 0 or not isinstance(idle.backend, MemoryBackend)


class SilentLog(MemoryLog):
    """A log whose server does not answer."""

    async def read_last_event(
        self, tenant: str, session: str, *, leader: bool = False
    ) -> RecordedEvent | None:
        """See `Log.last`."""
        del tenant, session, leader
        raise Unavailable("nats", "no responders")


async def test_gateway_without_its_log_is_alive_but_not_ready(
    tmp_path: Path, fresh_tenant: str
) -> None:
    async with start_service(
        MemoryBackend(log=SilentLog()), fresh_tenant, tmp_path, working=False
    ) as stand:
        assert await stand.fetch_json("/healthz") == {"alive": True}
        answer = await stand.http.get("/readyz")
        assert (answer.status_code, answer.json()["ready"]) == (503, False)
        assert answer.json()["parts"]["nats"]["detail"] == "nats is unavailable: no responders"
        form = {"blueprint": "assistant"}
        refused = await stand.http.post("/v1/sessions", json=form)
        assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
        assert int(refused.headers["Retry-After"]) >= 1


async def test_gateway_without_its_database_accepts_turns_but_is_not_ready(
    backend: LogBackend, fresh_tenant: str, tmp_path: Path
) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'nowhere' / 'rows.db'}")
    settings = GatewaySettings(tenant=fresh_tenant, http="127.0.0.1:0")
    parts = build_use_case_parts(backend, store, ProjectionSignal(), settings)
    dependencies = build_dependencies(settings, parts, NO_TRACING)
    async with httpx.AsyncClient() as http, serve_app(dependencies) as address:
        answer = await http.get(f"{address}/readyz")
        assert (answer.status_code, answer.json()["parts"]["nats"]["ready"]) == (503, True)
        assert answer.json()["parts"]["database"]["ready"] is False
        opened = await http.post(f"{address}/v1/sessions", json={"blueprint": "assistant"})
        url = f"{address}/v1/sessions/{opened.json()['session']}"
        assert (await http.post(f"{url}/turns", json={"text": "Hi"})).status_code == 202
        assert (await http.get(f"{url}/history")).status_code == 200
        for path in (f"{url}/calls", f"{address}/v1/sessions"):
            refused = await http.get(path)
            assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")


async def test_read_models_that_stay_behind_return_504(
    backend: LogBackend, fresh_tenant: str, tmp_path: Path
) -> None:
    async with start_service(backend, fresh_tenant, tmp_path, working=False) as stand:
        empty = open_store(f"sqlite:///{tmp_path / 'other.db'}")
        await prepare_schema(empty)
        parts = replace(stand.parts, store=empty, row_timeout=0.05, shutdown_event=asyncio.Event())
        dependencies = build_dependencies(stand.settings, parts, NO_TRACING)
        async with httpx.AsyncClient() as http, serve_app(dependencies) as address:
            session = await stand.open_session()
            url = f"{address}/v1/sessions/{session}/calls"
            answer = await http.get(url, params={"min_sequence": 1})
            assert (answer.status_code, answer.json()["code"]) == (504, "behind")
            assert int(answer.headers["Retry-After"]) >= 1
            fresh = await http.get(url)
            assert (fresh.status_code, fresh.json()["sequence"]) == (200, 0)
        await empty.close()


async def test_trace_context_of_a_request_is_recorded_in_its_events(idle: RunningGateway) -> None:
    parent = f"00-{'a' * 32}-{'b' * 16}-01"
    form = {"blueprint": "assistant"}
    headers = {"traceparent": parent}
    answer = await idle.http.post("/v1/sessions", json=form, headers=headers)
    last = await idle.backend.log.read_last_event(idle.tenant, answer.json()["session"])
    assert last is not None
    assert (last.envelope.traceparent or "").split("-")[1] == "a" * 32
    for garbage in ("", "00-xyz", "žalia", "0" * 5000):
        sent = [(b"traceparent", garbage.encode())]
        answer = await idle.http.post("/v1/sessions", json=form, headers=sent)
        assert answer.status_code == 201, garbage


async def test_request_span_has_its_route_as_name_and_is_the_parent_of_events(
    backend: LogBackend, fresh_tenant: str, tmp_path: Path
) -> None:
    spans, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    traces = Tracing(provider.get_tracer("test"))
    async with start_service(
        backend, fresh_tenant, tmp_path, working=False, traces=traces
    ) as stand:
        session = await stand.open_session()
        await stand.submit_turn(session)
        await stand.http.get("/v1/nowhere")
        await stand.http.get("/")
    named = {span.name: span for span in spans.get_finished_spans()}
    assert list(named) == ["POST /v1/sessions", "POST /v1/sessions/{session}/turns", "GET"]
    last = await backend.log.read_last_event(fresh_tenant, session)
    assert last is not None
    context = named["POST /v1/sessions/{session}/turns"].get_span_context()
    assert context is not None
    within = f"00-{context.trace_id:032x}-{context.span_id:016x}-"
    assert (last.envelope.traceparent or "").startswith(within)


async def test_unknown_routes_and_methods_return_problem_documents(
    idle: RunningGateway,
) -> None:
    for path in ("/v2", "/v1", "/v1/session", "/v1/sessions/", "/docs", "/redoc"):
        answer = await idle.http.get(path)
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown-route"), path
        assert answer.headers["Content-Type"] == "application/problem+json"
    answer = await idle.http.put("/v1/blueprints")
    assert (answer.status_code, answer.json()["code"]) == (405, "method-not-allowed")
    assert answer.headers["Allow"] == "GET"


async def test_served_openapi_document_equals_the_published_reference(idle: RunningGateway) -> None:
    served = (await idle.http.get("/openapi.json")).json()
    assert served == json.loads(REFERENCE.read_text()), "run `make docs`"
    problems = {
        media
        for path in served["paths"].values()
        for operation in path.values()
        for status in ("4XX", "5XX")
        for media in operation["responses"][status]["content"]
    }
    assert problems == {"application/problem+json"}


@pytest.mark.parametrize("http", ["8700", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", ""])
async def test_invalid_listening_address_is_refused(idle: RunningGateway, http: str) -> None:
    desk = replace(idle.dependencies, settings=idle.settings.model_copy(update={"http": http}))
    with pytest.raises(Refused, match="bad-setting"):
        async with serve_app(desk):
            pass


async def test_port_in_use_is_refused_with_a_fix(idle: RunningGateway) -> None:
    taken = idle.address.removeprefix("http://")
    desk = replace(idle.dependencies, settings=idle.settings.model_copy(update={"http": taken}))
    with pytest.raises(Refused) as refused:
        async with serve_app(desk):
            pass
    assert taken in refused.value.detail
    assert "another port" in refused.value.fix


async def test_first_request_does_not_build_the_routes() -> None:
    app, called = create_routed_app(), set[str]()
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        sys.setprofile(lambda frame, _event, _found: called.add(frame.f_code.co_name))
        try:
            answer = await client.get("/nowhere")
        finally:
            sys.setprofile(None)
    assert answer.status_code == 404
    assert "_build_effective_context" not in called
    assert "handle_async_request" in called
