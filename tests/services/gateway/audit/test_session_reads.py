"""History, windows, calls, prompts and the verification of a session."""

from __future__ import annotations

import asyncio
import json
from hashlib import sha256
from typing import Any

import pytest

from tests.services.gateway.gateway_service import MODEL, RunningGateway
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.store.memory_log import MemoryBlobStore, MemoryLog
from turnlog.events.store.ports import RawEvent
from turnlog.projections.prompt.chat_request import ChatRequest

in_memory = pytest.mark.parametrize("log_url", ["memory"], indirect=True)


async def run_session(stand: RunningGateway) -> str:
    session = await stand.open_session()
    await stand.submit_and_answer(session, "File it", "Filed.")
    await stand.submit_and_answer(session, "And this?", "That too.")
    return session


async def test_history_at_a_sequence_shows_turns_as_they_were_then(stand: RunningGateway) -> None:
    session = await run_session(stand)
    now = await stand.fetch_json(f"/v1/sessions/{session}/history")
    assert [(turn["text"], turn["reply"]) for turn in now["turns"]] == [
        ("File it", "Filed."),
        ("And this?", "That too."),
    ]
    then = await stand.fetch_json(f"/v1/sessions/{session}/history", at=2)
    assert [(turn["text"], turn["status"]) for turn in then["turns"]] == [("File it", "open")]
    assert then["sequence"] == 2
    at_head = await stand.fetch_json(f"/v1/sessions/{session}/history", at=now["sequence"])
    assert at_head == now


async def test_sequence_beyond_the_head_is_refused(stand: RunningGateway) -> None:
    session = await stand.open_session()
    for path in ("history?at=2", "window?at=2"):
        answer = await stand.http.get(f"/v1/sessions/{session}/{path}")
        assert (answer.status_code, answer.json()["code"]) == (422, "not-there-yet")
        assert (answer.json()["field"], answer.json()["fix"]) == ("at", "send at most 1")
    for at in ("0", "-1", "x", "1.5", "99999999999999999999"):
        answer = await stand.http.get(f"/v1/sessions/{session}/history?at={at}")
        assert (answer.status_code, answer.json()["field"]) == (422, "at")


async def test_window_shows_the_prompt_of_the_next_call(stand: RunningGateway) -> None:
    session = await run_session(stand)
    window = await stand.fetch_json(f"/v1/sessions/{session}/window")
    assert (window["call"], window["model"]) == ("reply", MODEL)
    assert [(message["role"], message["content"]) for message in window["messages"]] == [
        ("system", "You file what you are told.\n\nAnswer in en."),
        ("user", "File it"),
        ("assistant", "Filed."),
        ("user", "And this?"),
        ("assistant", "That too."),
    ]
    parts = window["manifest"]["parts"]
    assert [part["layer"] for part in parts] == ["persona", "language", "history", "input"]


async def test_window_before_the_first_call_uses_the_files_that_call_would_pin(
    idle: RunningGateway,
) -> None:
    session = await idle.open_session()
    await idle.submit_turn(session, "File it")
    messages = (await idle.fetch_json(f"/v1/sessions/{session}/window"))["messages"]
    assert [each["content"] for each in messages] == [
        "You file what you are told.\n\nAnswer in en.",
        "File it",
    ]


async def test_window_at_the_sequence_of_a_call_equals_its_prompt(stand: RunningGateway) -> None:
    session = await run_session(stand)
    events = await stand.parts.command_handler.load_events(stand.tenant, session)
    fixed = [event for event in events if isinstance(event.event, ContextAssembled)]
    for event, call in zip(fixed, ("1.1", "2.1"), strict=True):
        assert isinstance(event.event, ContextAssembled)
        at = event.event.manifest.sequence
        window = await stand.fetch_json(f"/v1/sessions/{session}/window", at=at)
        prompt = await stand.fetch_json(f"/v1/sessions/{session}/calls/{call}/prompt")
        assert window["messages"] == prompt["messages"]
        assert window["manifest"]["digest"] == prompt["digest"]


async def test_window_of_a_call_kind_missing_in_the_blueprint_is_refused(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session()
    answer = await stand.http.get(f"/v1/sessions/{session}/window?call=replay")
    assert (answer.status_code, answer.json()["code"]) == (422, "unknown-kind")
    assert answer.json()["fix"] == "write `reply`"


async def test_calls_are_listed_with_tokens_time_and_cost(stand: RunningGateway) -> None:
    session = await run_session(stand)
    head = (await stand.fetch_json(f"/v1/sessions/{session}"))["sequence"]
    listed = await stand.fetch_json(f"/v1/sessions/{session}/calls", min_sequence=head)
    assert listed["sequence"] == head
    assert [call["call"] for call in listed["calls"]] == ["1.1", "2.1"]
    first = listed["calls"][0]
    assert (first["model"], first["kind"], first["finish"]) == (MODEL, "reply", "stop")
    assert (first["input_tokens"], first["output_tokens"], first["known"]) == (10, 5, "reported")
    (attempt,) = first["attempts"]
    assert (attempt["outcome"], attempt["waited_ms"]) == ("answered", 0)
    measured = attempt["total_ms"]
    assert first["times"] == {"total_ms": measured, "attempts_ms": measured, "waiting_ms": 0}
    costs = [call["cost"] for call in listed["calls"]]
    amounts = [cost["micro_dollars"] for cost in costs]
    assert costs[0] == {"micro_dollars": amounts[0], "guessed": True, "unpriced_calls": 0}
    together = {"micro_dollars": sum(amounts), "guessed": True, "unpriced_calls": 0}
    assert listed["usage"]["cost"] == together
    growth = await stand.fetch_json("/v1/growth", session=session)
    assert [group["cost"] for group in growth["groups"]] == [together]
    what_if = await stand.http.post("/v1/what-if", json={"sessions": [session], "budget": 9_000})
    lines = [json.loads(line) for line in what_if.text.splitlines()]
    assert [line["before"]["guessed"] for line in lines if "before" in line] == [True, True]
    diff = await stand.fetch_json(f"/v1/sessions/{session}/calls/1.1/diff/2.1")
    assert [diff["guessed"], diff["before"]["guessed"], diff["after"]["guessed"]] == [True] * 3
    log = (await stand.fetch_json(f"/v1/sessions/{session}/verify"))["log"]
    assert (log["guessed_attempts"], log["unpriced_attempts"]) == (2, 0)


async def test_calls_that_a_fork_copied_count_in_the_session_that_made_them(
    stand: RunningGateway,
) -> None:
    session = await run_session(stand)

    async def read_growth(of: str) -> tuple[list[tuple[str, bool]], list[int], list[int]]:
        """Return the calls of a session, and the number in its groups and in those of all."""
        head = (await stand.fetch_json(f"/v1/sessions/{of}"))["sequence"]
        growth = await stand.fetch_json("/v1/growth", session=of, min_sequence=head)
        everything = await stand.fetch_json("/v1/growth", group_by="blueprint")
        return (
            [(call["call"], call["copied"]) for call in growth["calls"]],
            [group["calls"] for group in growth["groups"]],
            [group["calls"] for group in everything["groups"]],
        )

    made = [("1.1", False), ("2.1", False)]
    assert await read_growth(session) == (made, [2], [2])
    at = (await stand.fetch_json(f"/v1/sessions/{session}"))["sequence"]
    forked = await stand.http.post(f"/v1/sessions/{session}/fork", json={"at": at})
    fork = forked.json()["session"]
    copied = [("1.1", True), ("2.1", True)]
    assert await read_growth(fork) == (copied, [], [2])
    await stand.submit_and_answer(fork, "And that?", "As well.")
    assert await read_growth(fork) == ([*copied, ("3.1", False)], [1], [3])


async def test_calls_at_a_sequence_beyond_the_head_are_refused(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session()
    answer = await stand.http.get(f"/v1/sessions/{session}/calls?min_sequence=2")
    assert (answer.status_code, answer.json()["code"]) == (422, "not-there-yet")


async def test_prompt_route_returns_the_exact_request_of_a_call(stand: RunningGateway) -> None:
    session = await run_session(stand)
    prompt = await stand.fetch_json(f"/v1/sessions/{session}/calls/2.1/prompt")
    sent = stand.model.requests[1]
    assert [dict(message) for message in sent.messages] == prompt["messages"]
    assert (prompt["verified"], prompt["fault"], prompt["model"]) == (True, None, sent.model)
    for way in ("reference", "assembly"):
        assert prompt[way] == {
            "outcome": "reproduced",
            "digest": prompt["digest"],
            "fault": None,
        }
    form = {name: prompt[name] for name in ("model", "messages", "tools", "parameters")}
    canonical = json.dumps(form, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert prompt["digest"] == f"sha256:{sha256(canonical.encode()).hexdigest()}"


async def test_prompt_of_a_missing_call_returns_404(stand: RunningGateway) -> None:
    session = await run_session(stand)
    for call in ("3.1", "1.2", "1", "x", "%00"):
        answer = await stand.http.get(f"/v1/sessions/{session}/calls/{call}/prompt")
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown-call"), call


def remove_persona_blob(stand: RunningGateway, prompt: dict[str, Any]) -> str:
    """Remove the blob of a prompt file, which no real store allows, and return its digest."""
    (persona,) = (part for part in prompt["manifest"]["parts"] if part["layer"] == "persona")
    digest = str(persona["source"]["digest"])
    assert isinstance(stand.backend.blobs, MemoryBlobStore)
    del stand.backend.blobs.blobs[stand.tenant, digest]
    return digest


@in_memory
@pytest.mark.tampers
async def test_prompt_with_a_missing_blob_returns_its_manifest_and_the_fault(
    stand: RunningGateway,
) -> None:
    session = await run_session(stand)
    original = await stand.fetch_json(f"/v1/sessions/{session}/calls/1.1/prompt")
    digest = remove_persona_blob(stand, original)
    prompt = await stand.fetch_json(f"/v1/sessions/{session}/calls/1.1/prompt")
    assert (prompt["verified"], prompt["reference"]["outcome"]) == (False, "failed")
    assert prompt["assembly"]["outcome"] == "failed", "whatever the service still holds of it"
    async with stand.start_another_gateway() as restarted:
        prompt = await restarted.fetch_json(f"/v1/sessions/{session}/calls/1.1/prompt")
        assert (prompt["verified"], prompt["messages"]) == (False, [])
        assert digest in prompt["fault"]["where"]
        assert prompt["manifest"] == original["manifest"]


@in_memory
@pytest.mark.promise("P17")
@pytest.mark.tampers
async def test_verify_reports_a_blob_deleted_after_the_service_cached_it(
    stand: RunningGateway,
) -> None:
    session = await run_session(stand)
    original = await stand.fetch_json(f"/v1/sessions/{session}/calls/1.1/prompt")
    assert (await stand.fetch_json(f"/v1/sessions/{session}/verify"))["verified"]
    remove_persona_blob(stand, original)
    checked = await stand.fetch_json(f"/v1/sessions/{session}/verify")
    checks = [found["check"] for found in checked["findings"]]
    assert checks == ["blobs", *(["reference", "assembly"] * 2)]
    assert (checked["completeness"], checked["reproduction"]) == ("incomplete", "failed")
    assert (checked["verified"], checked["prompts"]["reference"]) == (False, 0)


async def test_verify_with_a_noted_head_reports_a_missing_session(
    stand: RunningGateway,
) -> None:
    noted = {"noted": 3, "head": f"sha256:{'0' * 64}"}
    checked = await stand.fetch_json("/v1/sessions/gone/verify", **noted)
    found = [(each["check"], each["sequence"]) for each in checked["findings"]]
    assert (checked["verified"], checked["events"], found) == (False, 0, [("noted", 3)])
    unknown = await stand.http.get("/v1/sessions/gone/verify")
    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown-session")


@pytest.mark.tampers
async def test_session_with_an_undecodable_last_event_is_verified_as_broken(
    stand: RunningGateway,
) -> None:
    session = await run_session(stand)
    log = stand.backend.log
    if not isinstance(log, MemoryLog):
        return  # No event of a real log can be altered from here
    place = log.sessions[stand.tenant, session][-1]
    raw = log.stored[place - 1]
    assert raw is not None
    log.stored[place - 1] = RawEvent(raw.subject, place, b"junk")
    checked = await stand.fetch_json(f"/v1/sessions/{session}/verify")
    assert (checked["integrity"], checked["findings"][0]["check"]) == ("broken", "log")


async def test_unaltered_session_passes_verification(stand: RunningGateway) -> None:
    session = await run_session(stand)
    report = await stand.fetch_json(f"/v1/sessions/{session}/verify")
    assert (report["verified"], report["findings"]) == (True, [])
    prompts = report["prompts"]
    assert (prompts["calls"], prompts["reference"], prompts["assembly"]) == (2, 2, 2)
    verdicts = [report[each] for each in ("integrity", "completeness", "reproduction")]
    assert verdicts == ["intact", "unwitnessed", "reproduced"]
    assert report["events"] == report["sequence"]
    last = await stand.backend.log.read_last_event(stand.tenant, session)
    assert last is not None
    assert report["head"] == last.head.hash


async def test_verify_compares_the_session_with_a_noted_head(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session()
    before = await stand.fetch_json(f"/v1/sessions/{session}/verify")
    await stand.submit_and_answer(session, "Hi", "Hello.")
    noted = {"noted": before["sequence"], "head": before["head"]}
    assert (await stand.fetch_json(f"/v1/sessions/{session}/verify", **noted))["verified"]
    other = await stand.fetch_json(f"/v1/sessions/{session}/verify", **(noted | {"noted": 2}))
    assert [found["check"] for found in other["findings"]] == ["noted"]
    ahead = await stand.fetch_json(f"/v1/sessions/{session}/verify", **(noted | {"noted": 99}))
    assert ahead["findings"] == [
        {
            "verdict": "completeness",
            "check": "noted",
            "sequence": 99,
            "detail": "it was noted and is missing",
        }
    ]
    for query in ("noted=1", f"head={before['head']}", "noted=1&head=sha256:0"):
        answer = await stand.http.get(f"/v1/sessions/{session}/verify?{query}")
        assert answer.status_code == 422, query


@pytest.mark.tampers
async def test_undecodable_event_is_a_verify_finding_and_a_corrupt_error_elsewhere(
    stand: RunningGateway,
) -> None:
    session = await run_session(stand)
    if not isinstance(stand.backend.log, MemoryLog):
        return  # No event of a real log can be altered from here
    place = stand.backend.log.sessions[stand.tenant, session][1]
    subject = f"session.{stand.tenant}.{session}.session"
    stand.backend.log.stored[place - 1] = RawEvent(subject, place, b"{}")
    report = await stand.fetch_json(f"/v1/sessions/{session}/verify")
    found = [(each["check"], each["sequence"]) for each in report["findings"]]
    assert found == [("log", 2)]
    assert report["prompts"]["behind"].endswith("since event 2 cannot be read")
    assert (report["verified"], report["reproduction"]) == (False, "unchecked")
    answer = await stand.http.get(f"/v1/sessions/{session}/history")
    assert (answer.status_code, answer.json()["code"]) == (500, "corrupt")


async def test_window_during_a_turn_equals_the_prompt_sent_to_the_model(
    stand: RunningGateway,
) -> None:
    session = await stand.open_session()
    requested, answered = asyncio.Event(), asyncio.Event()
    stand.model.scripts.append([requested.set, answered, "Done."])
    await stand.submit_turn(session, "File it")
    await asyncio.wait_for(requested.wait(), 30)
    window = await stand.fetch_json(f"/v1/sessions/{session}/window")
    assert [dict(message) for message in stand.model.requests[0].messages] == window["messages"]
    answered.set()


def test_request_digest_is_the_sha256_of_its_canonical_json() -> None:
    request = ChatRequest("m", ())
    form = '{"messages":[],"model":"m","parameters":{},"tools":[]}'
    assert request.digest == f"sha256:{sha256(form.encode()).hexdigest()}"
