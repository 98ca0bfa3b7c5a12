"""Verification over HTTP: the log is read while the lines are sent."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import active_children
from typing import Any

import httpx
import pytest

from tests.services.gateway.gateway_service import NO_TRACING, RunningGateway, build_alert_service
from tests.support.processes.service_connection import connect_service
from turnlog.events.errors import Unavailable
from turnlog.events.store.memory_log import MemoryLog
from turnlog.events.store.ports import RawEvent
from turnlog.projections.audit.verify.session_verification import VerificationContext
from turnlog.services.alerts.alert_evaluator import AlertEvaluator
from turnlog.services.audit.verify_pool import SessionVerifier, start_process_verifier
from turnlog.services.cli.client.verification_reads import stream_verification
from turnlog.services.gateway.dependencies import build_dependencies
from turnlog.services.gateway.main import serve_app
from turnlog.services.platform.clock import read_clock

Line = dict[str, Any]


async def fetch_verify_lines(stand: RunningGateway, checkpoint: Line | None = None) -> list[Line]:
    request = stand.http.post("/v1/verify", json=checkpoint) if checkpoint else None
    answer = await (request or stand.http.get("/v1/verify"))
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


async def run_three_sessions(stand: RunningGateway) -> list[str]:
    """Run three sessions in turn."""
    sessions = [await stand.open_session() for _ in range(3)]
    for text in ("Hi", "And now?"):
        for session in sessions:
            await stand.submit_and_answer(session, text, f"You said {text}")
    for session in sessions:
        head = (await stand.fetch_json(f"/v1/sessions/{session}"))["sequence"]
        await stand.fetch_json(f"/v1/sessions/{session}/calls", min_sequence=head)
    return sessions


async def test_verifying_an_unaltered_log_streams_progress_and_a_summary_only(
    stand: RunningGateway,
) -> None:
    sessions = await run_three_sessions(stand)
    *before, summary = await fetch_verify_lines(stand)
    assert {line["kind"] for line in before} <= {"progress"}
    assert (summary["verified"], summary["sessions"], summary["first"]) == (True, 3, None)
    verdicts = [summary[each] for each in ("integrity", "completeness", "reproduction", "totals")]
    assert verdicts == ["intact", "unwitnessed", "reproduced", "equal"]
    prompts = summary["prompts"]
    assert (prompts["calls"], prompts["reference"], prompts["assembly"]) == (6, 6, 6)
    singly = [await stand.fetch_json(f"/v1/sessions/{session}/verify") for session in sessions]
    assert summary["events"] == sum(each["events"] for each in singly)
    for figure in ("turns", "calls", "tokens", "input_tokens", "output_tokens", "micro_dollars"):
        assert summary["log"][figure] == sum(each["log"][figure] for each in singly)
    assert {each["totals"] for each in singly} == {"equal"}


@contextmanager
def open_lost_verifier(_events: int, _means: VerificationContext) -> Generator[SessionVerifier]:
    """Give a process that verifies, and end it before anybody has asked it anything."""
    before = set(active_children())
    with start_process_verifier(1) as verifier:
        for process in set(active_children()) - before:
            process.kill()
            process.join()
        yield verifier


async def test_verify_stream_ends_without_a_summary_when_a_verifier_process_dies(
    stand: RunningGateway,
) -> None:
    await run_three_sessions(stand)
    parts = replace(stand.parts, open_verifier=open_lost_verifier)
    dependencies = build_dependencies(stand.settings, parts, NO_TRACING)
    async with serve_app(dependencies) as address, httpx.AsyncClient(base_url=address) as http:
        service = connect_service(http)
        with pytest.raises(Unavailable):
            assert [line async for line in stream_verification(service, None)] == []
        assert (await http.get("/healthz")).status_code == 200
        slots = dependencies.use_cases.verification.log_scan_slots.semaphore
        assert not slots.locked(), "whoever asks next is let in"


@pytest.mark.tampers
async def test_verify_reports_every_altered_session_in_log_order(
    stand: RunningGateway,
) -> None:
    sessions = await run_three_sessions(stand)
    if not isinstance(stand.backend.log, MemoryLog):
        return  # No event of a real log can be altered from here
    log = stand.backend.log
    for session, which in zip(sessions[1:], (8, 3), strict=True):
        place = log.sessions[stand.tenant, session][which]
        raw = log.stored[place - 1]
        assert raw is not None
        log.stored[place - 1] = RawEvent(
            raw.subject, place, raw.stored.replace(b'"data":', b'"data" :')
        )
    *found, summary = await fetch_verify_lines(stand)
    wrong = [line for line in found if line["kind"] == "finding"]
    named = {(line["session"], line["finding"]["sequence"]) for line in wrong}
    assert named == {(sessions[1], 9), (sessions[2], 4)}
    assert summary["first"] == wrong[0]
    assert wrong[0]["session"] == sessions[2], "its event lies before the other one in the log"
    assert (summary["integrity"], summary["unsound"], summary["findings"]) == ("broken", 2, 2)


@pytest.mark.promise("P17")
async def test_verify_with_a_checkpoint_reports_a_truncated_session(
    stand: RunningGateway,
) -> None:
    sessions = await run_three_sessions(stand)
    checkpoint = await stand.fetch_json("/v1/checkpoint")
    assert set(checkpoint["sessions"]) == set(sessions)
    lines = await fetch_verify_lines(stand, checkpoint)
    assert (lines[-1]["verified"], lines[-1]["completeness"]) == (True, "witnessed")
    await stand.submit_and_answer(sessions[0], "One more", "As you like")
    assert (await fetch_verify_lines(stand, checkpoint))[-1]["verified"], (
        "what came later takes nothing away"
    )
    head = checkpoint["sessions"][sessions[1]]
    longer = {**head, "sequence": head["sequence"] + 1}
    cut = {**checkpoint, "sessions": {**checkpoint["sessions"], sessions[1]: longer}}
    *found, summary = await fetch_verify_lines(stand, cut)
    wrong = [line for line in found if line["kind"] == "finding"]
    assert [(line["session"], line["finding"]["check"]) for line in wrong] == [
        (sessions[1], "noted")
    ]
    assert (summary["integrity"], summary["completeness"]) == ("intact", "incomplete")


async def test_verify_with_a_checkpoint_reports_a_deleted_session_and_library_family(
    stand: RunningGateway,
) -> None:
    await run_three_sessions(stand)
    checkpoint = await stand.fetch_json("/v1/checkpoint")
    head = {"sequence": 3, "hash": f"sha256:{'0' * 64}", "root": f"sha256:{'0' * 64}"}
    checkpoint["sessions"]["gone"] = head
    checkpoint["library"]["segments"] = head
    *found, summary = await fetch_verify_lines(stand, checkpoint)
    missed = {(line["log"], line["session"]) for line in found if line["kind"] == "finding"}
    assert missed == {("sessions", "gone"), ("library", "segments")}
    assert not summary["verified"]


async def test_verify_includes_the_chain_of_the_segment_library(stand: RunningGateway) -> None:
    added = {"scope": "lore", "content": "Long ago.", "locale": "en"}
    answer = await stand.http.post("/v1/segments", json=added)
    assert answer.status_code == 201, answer.text
    checkpoint = await stand.fetch_json("/v1/checkpoint")
    assert list(checkpoint["library"]) == ["segments"]
    (*_, summary) = await fetch_verify_lines(stand, checkpoint)
    assert (summary["verified"], summary["events"]) == (True, 1)


async def test_verify_includes_the_chains_of_alerts(stand: RunningGateway) -> None:
    assert "alerts" not in await stand.fetch_json("/v1/checkpoint"), "as in an earlier release"
    rule = {"name": "lag", "measure": "projector_lag", "above": -1}
    answer = await stand.http.put("/v1/alerts", json={"alerts": [rule]})
    assert answer.status_code == 200, answer.text
    service = build_alert_service(stand.backend, "/turnlog/projector")
    await AlertEvaluator(
        log=stand.backend.log, store=stand.store, service=service, clock=read_clock
    ).evaluate_alerts()
    checkpoint = await stand.fetch_json("/v1/checkpoint")
    assert [*checkpoint["alerts"]] == ["lag"]
    (*_, summary) = await fetch_verify_lines(stand, checkpoint)
    assert (summary["verified"], summary["events"]) == (True, 2), "the rule, and that it is raised"
    head = {"sequence": 3, "hash": f"sha256:{'0' * 64}", "root": f"sha256:{'0' * 64}"}
    longer = {**checkpoint, "alerts": {"lag": head, "gone": head}}
    *found, summary = await fetch_verify_lines(stand, longer)
    missed = {(line["log"], line["session"]) for line in found if line["kind"] == "finding"}
    assert missed == {("alerts", "lag"), ("alerts", "gone")}
    assert not summary["verified"]


async def test_a_checkpoint_of_another_tenant_is_refused(stand: RunningGateway) -> None:
    checkpoint = {**await stand.fetch_json("/v1/checkpoint"), "tenant": "other"}
    answer = await stand.http.post("/v1/verify", json=checkpoint)
    assert (answer.status_code, answer.json()["field"]) == (422, "tenant")


@pytest.mark.promise("P14")
async def test_log_scans_above_the_concurrency_limit_get_429_with_retry_after(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session()
    requests = [
        ("GET", "/v1/verify", None),
        ("POST", "/v1/verify", await stand.fetch_json("/v1/checkpoint")),
        ("GET", "/v1/checkpoint", None),
        ("POST", "/v1/checkpoint", await stand.fetch_json("/v1/checkpoint")),
        ("POST", "/v1/what-if", {"sessions": [session], "budget": 60}),
    ]
    slots = stand.dependencies.use_cases.verification.log_scan_slots.semaphore
    async with slots, slots:
        for method, path, body in requests:
            answer = await stand.http.request(method, path, json=body)
            assert (answer.status_code, answer.json()["code"]) == (429, "busy"), path
            assert int(answer.headers["Retry-After"]) > 0
        assert (await stand.fetch_json(f"/v1/sessions/{session}/verify"))["verified"]
    for method, path, body in requests * 2:
        assert (await stand.http.request(method, path, json=body)).status_code == 200, path
