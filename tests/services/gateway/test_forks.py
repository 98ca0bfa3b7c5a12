"""Forks: a new session that continues from an event of another session."""

from __future__ import annotations

from typing import Any

from tests.services.gateway.gateway_service import RunningGateway
from turnlog.events.fork_copy import copy_events
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.session_events import SessionOpened
from turnlog.projections.session.commands import ForkSession
from turnlog.projections.session.rules.fork_rules import build_fork_opening
from turnlog.services.command_handling.idempotent_commands import CommandMetadata

LATER = "And what did I say?"


async def run_session(stand: RunningGateway) -> str:
    """Run turns, exclude one and redact one, and run one more."""
    session = await stand.open_session()
    for number in ("one", "two", "three"):
        await stand.submit_and_answer(session, f"File {number}", f"Filed {number}.")
    await stand.http.put(f"/v1/sessions/{session}/turns/1/exclusion")
    form = {"turn": 2, "reason": "not ours to say"}
    await stand.http.post(f"/v1/sessions/{session}/redactions", json=form)
    await stand.submit_and_answer(session, "File four", "Filed four.")
    return session


async def fork_session(stand: RunningGateway, origin: str, **form: object) -> dict[str, Any]:
    answer = await stand.http.post(f"/v1/sessions/{origin}/fork", json=form)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def fetch_sequence(stand: RunningGateway, session: str) -> int:
    return int((await stand.fetch_json(f"/v1/sessions/{session}"))["sequence"])


async def fetch_prompt(
    stand: RunningGateway, session: str, turn: int
) -> tuple[list[dict[str, str]], str]:
    """Return the messages and the digest of a turn's first prompt."""
    prompt = await stand.fetch_json(f"/v1/sessions/{session}/calls/{turn}.1/prompt")
    assert prompt["verified"]
    return prompt["messages"], prompt["digest"]


async def test_next_prompt_of_a_fork_equals_that_of_its_origin(
    stand: RunningGateway,
) -> None:
    session = await run_session(stand)
    at = await fetch_sequence(stand, session)
    fork = (await fork_session(stand, session, at=at))["session"]
    for each in (session, fork):
        await stand.submit_and_answer(each, LATER, "Much.")
    assert await fetch_prompt(stand, fork, 5) == await fetch_prompt(stand, session, 5)


async def test_fork_at_an_earlier_sequence_excludes_later_events(
    stand: RunningGateway,
) -> None:
    session = await run_session(stand)
    history = await stand.fetch_json(f"/v1/sessions/{session}/history")
    (excluded,) = [
        event.sequence
        for event in await stand.parts.command_handler.load_events(stand.tenant, session)
        if event.envelope.type == "turnlog.turn-excluded.v1"
    ]
    fork = (await fork_session(stand, session, at=excluded - 1))["session"]
    assert len(history["turns"]) == 4
    then = await stand.fetch_json(f"/v1/sessions/{session}/history", at=excluded - 1)
    forked = await stand.fetch_json(f"/v1/sessions/{fork}/history")
    # The origin's reply was redacted later, so its readers get the replacement at any sequence.
    unredacted = {name: forked["turns"][1][name] for name in ("reply", "redacted", "reason")}
    withheld = then["turns"][1] | unredacted
    assert forked["turns"] == [then["turns"][0], withheld, *then["turns"][2:]]
    await stand.submit_and_answer(fork, LATER, "Much.")
    words = [each["content"] for each in (await fetch_prompt(stand, fork, 4))[0]]
    assert "Filed two." in words
    assert "File four" not in words


async def test_forking_leaves_the_origin_unchanged_and_both_sessions_verify(
    stand: RunningGateway,
) -> None:
    session = await run_session(stand)
    before = await stand.parts.command_handler.load_events(stand.tenant, session)
    fork = (await fork_session(stand, session, at=len(before)))["session"]
    assert await stand.parts.command_handler.load_events(stand.tenant, session) == before
    for each in (session, fork):
        assert (await stand.fetch_json(f"/v1/sessions/{each}/verify"))["verified"]


async def test_fork_of_a_fork_has_the_prompts_of_the_first_origin(stand: RunningGateway) -> None:
    session = await run_session(stand)
    at = await fetch_sequence(stand, session)
    first = (await fork_session(stand, session, at=at, session="first"))["session"]
    second = (await fork_session(stand, first, at=at, session="second"))["session"]
    for each in (session, second):
        await stand.submit_and_answer(each, LATER, "Much.")
    assert await fetch_prompt(stand, second, 5) == await fetch_prompt(stand, session, 5)
    assert (await stand.fetch_json(f"/v1/sessions/{second}/verify"))["verified"]
    opened = (await stand.parts.command_handler.load_events(stand.tenant, second))[0].event
    assert isinstance(opened, SessionOpened)
    assert opened.drawn == session, "variants would be drawn anew"


async def test_fork_records_its_origin_and_is_listed_by_it(stand: RunningGateway) -> None:
    session = await run_session(stand)
    at = await fetch_sequence(stand, session)
    fork = await fork_session(stand, session, at=at, session="elsewhere")
    origin = {"kind": "fork", "session": session, "sequence": at}
    assert (fork["origin"], fork["sequence"]) == (origin, at)
    assert (await stand.fetch_json("/v1/sessions/elsewhere"))["origin"] == origin
    found = await stand.fetch_json("/v1/sessions", origin=session, min_sequence=f"elsewhere:{at}")
    assert [(each["session"], each["origin"]) for each in found["sessions"]] == [
        ("elsewhere", origin)
    ]
    assert (await stand.fetch_json("/v1/sessions", origin="elsewhere"))["sessions"] == []


async def test_every_event_of_a_fork_references_its_original(stand: RunningGateway) -> None:
    session = await run_session(stand)
    at = await fetch_sequence(stand, session)
    await fork_session(stand, session, at=at, session="copy")
    events = await stand.parts.command_handler.load_events(stand.tenant, session)
    copies = await stand.parts.command_handler.load_events(stand.tenant, "copy")
    assert copies[0].envelope.copyof is None
    for event, copy in zip(events[1:], copies[1:], strict=True):
        assert copy.envelope.copyof == event.envelope.id != copy.envelope.id
        assert copy.load_data() == event.load_data()
        assert copy.envelope.time == event.envelope.time


async def test_copied_calls_of_a_fork_are_not_counted_in_its_cost(stand: RunningGateway) -> None:
    session = await run_session(stand)
    at = await fetch_sequence(stand, session)
    await fork_session(stand, session, at=at, session="copy")
    page = await stand.fetch_json("/v1/sessions", min_sequence=f"copy:{at}")
    assert len(page["sessions"]) == 2
    calls = (await stand.fetch_json(f"/v1/sessions/{session}/calls"))["calls"]
    counted = sum(each["usage"]["micro_dollars"] for each in page["sessions"])
    assert counted == sum(call["micro_dollars"] or 0 for call in calls)
    assert len((await stand.fetch_json("/v1/sessions/copy/calls"))["calls"]) == len(calls)


async def test_forking_twice_with_one_key_creates_one_fork(stand: RunningGateway) -> None:
    session = await run_session(stand)
    at = await fetch_sequence(stand, session)
    path, key = f"/v1/sessions/{session}/fork", {"Idempotency-Key": "k-1"}
    first = await stand.http.post(path, json={"at": at}, headers=key)
    again = await stand.http.post(path, json={"at": at}, headers=key)
    assert (first.status_code, first.json()) == (201, again.json())
    other = await stand.http.post(path, json={"at": 1}, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "key-reused")


async def test_forking_at_an_open_turn_is_refused_and_names_the_turn(idle: RunningGateway) -> None:
    session = await idle.open_session()
    await idle.submit_turn(session)
    answer = await idle.http.post(f"/v1/sessions/{session}/fork", json={"at": 2})
    assert (answer.status_code, answer.json()["code"]) == (409, "turn-open")
    assert "turn 1" in answer.json()["detail"]
    assert (await fork_session(idle, session, at=1))["sequence"] == 1


async def test_closed_session_can_be_forked_only_before_its_close(idle: RunningGateway) -> None:
    session = await idle.open_session()
    await idle.http.post(f"/v1/sessions/{session}/close")
    answer = await idle.http.post(f"/v1/sessions/{session}/fork", json={"at": 2})
    assert (answer.status_code, answer.json()["code"]) == (409, "session-closed")
    fork = (await fork_session(idle, session, at=1))["session"]
    assert not (await idle.fetch_json(f"/v1/sessions/{fork}"))["closed"]


async def test_existing_session_id_is_refused(idle: RunningGateway) -> None:
    session = await idle.open_session()
    answer = await idle.http.post(
        f"/v1/sessions/{session}/fork", json={"at": 1, "session": session}
    )
    assert (answer.status_code, answer.json()["code"]) == (409, "session-exists")


async def test_unfinished_fork_refuses_turns_until_it_is_completed(
    stand: RunningGateway,
) -> None:
    session = await run_session(stand)
    sessions, at = stand.parts.command_handler, await fetch_sequence(stand, session)
    events = await sessions.load_events(stand.tenant, session)
    begun = ForkSession(
        build_fork_opening(await sessions.require_state(stand.tenant, session), events[0])
    )
    half = (await sessions.handle(stand.tenant, "half", begun, CommandMetadata("tester"))).state
    await sessions.append_batch(half, copy_events("half", half.head, events[1:6], "/test"))
    turn = await stand.http.post("/v1/sessions/half/turns", json={"text": "Hi"})
    assert (turn.status_code, turn.json()["code"]) == (409, "fork-unfinished")
    await fork_session(stand, session, at=at, session="half")
    for each in (session, "half"):
        await stand.submit_and_answer(each, LATER, "Much.")
    assert await fetch_prompt(stand, "half", 5) == await fetch_prompt(stand, session, 5)


async def test_copied_turns_of_a_fork_are_not_queued_for_workers(stand: RunningGateway) -> None:
    session = await run_session(stand)
    at = await fetch_sequence(stand, session)
    await fork_session(stand, session, at=at, session="copy")
    stream = stand.backend.log.stream_raw_events(stand.tenant, 0, live=False)
    subjects = [raw.subject async for bulk in stream for raw in bulk]
    submitted = [each for each in subjects if ".copy." in each and each.endswith(".submitted")]
    assert submitted == []
    fixed = [
        event
        for event in await stand.parts.command_handler.load_events(stand.tenant, "copy")
        if isinstance(event.event, ContextAssembled)
    ]
    assert len(fixed) == 4
