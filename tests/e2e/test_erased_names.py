"""Names of people in sealed sessions: in no byte of the store, in every answer, and erased."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from nats.js.errors import NotFoundError

from tests.agent_programs.agent_service import (
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.e2e.test_forgetting import export, run_command, run_stranger, sign
from tests.e2e.test_sealed_sessions import SERVER, list_files_with, run_verifier
from tests.support.processes.process_host import ProcessHost
from tests.support.processes.turnlog_up import TurnlogUp, run_turnlog_up
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.model.tool_events import ApprovalRequested
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.events.seals.person_names import is_pseudonym

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("a service and a tool server start"),
]

ADA, BO, CLEO = "qvxada", "qvxbo", "qvxcleo"
"""The last one is an operator, who reaches the sessions of all."""

BY_ADA, BY_BO, BY_CLEO = ({"X-Forwarded-User": name} for name in (ADA, BO, CLEO))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def named_up(host: ProcessHost) -> AsyncIterator[TurnlogUp]:
    """A service that seals, behind a proxy that names users, with a tool that needs approval."""
    file = host.folder / "mcp.json"
    server = {
        "command": sys.executable,
        "args": [*SERVER, "--stdio"],
        "cwd": str(Path.cwd()),
        "approve": ["rows"],
    }
    file.write_text(json.dumps({"mcpServers": {"far": server}}))
    variables = {
        "TURNLOG_TOOLS": str(file),
        "TURNLOG_SEALING": "on",
        "TURNLOG_MODEL": "openai/heron",
        "TURNLOG_ACTOR_PROXIES": "127.0.0.1",
        "TURNLOG_OPERATORS": CLEO,
    }
    async with run_turnlog_up(host, variables=variables) as up:
        yield up


async def send(
    up: TurnlogUp,
    method: str,
    path: str,
    **options: Any,  # noqa: ANN401 - those of httpx
) -> Any:  # noqa: ANN401 - JSON of any shape
    answer = await up.service.http.request(method, f"/v1/sessions{path}", **options)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


async def open_as(up: TurnlogUp, by: dict[str, str]) -> str:
    form = {"blueprint": "uderia", "profile": "tool_enabled"}
    return str((await send(up, "POST", "", json=form, headers=by))["session"])


async def speak(
    up: TurnlogUp, provider: OpenAIServer, session: str, text: str, by: dict[str, str]
) -> None:
    provider.queue_behaviours(answer_with_plan(), answer_with_text("I heard you."))
    path = f"/{session}/turns?wait=60"
    turn = await send(up, "POST", path, json={"text": text}, headers=by)
    assert turn["status"] == "completed", turn


async def run_named_session(up: TurnlogUp, provider: OpenAIServer) -> str:
    """Run a session in which a user does what can be done: the name goes in by every way."""
    session = await open_as(up, BY_ADA)
    provider.queue_behaviours(
        answer_with_plan(("the goal", ["far_rows"])),
        answer_with_tool_calls(("far_rows", {"count": 3})),
        answer_with_text("Three rows."),
    )
    await send(up, "POST", f"/{session}/turns", json={"text": "Rows, please"}, headers=BY_ADA)
    await up.service.wait_for_event(session, ApprovalRequested)
    path = f"/{session}/turns/1/approvals/1"
    await send(up, "POST", path, json={"decision": "approve"}, headers=BY_ADA)
    await up.service.wait_for_event(session, TurnCompleted)
    await send(up, "POST", f"/{session}/turns/1/feedback", json={"vote": "up"}, headers=BY_ADA)
    await send(up, "PUT", f"/{session}/shares/{BO}", json={"access": "submit"}, headers=BY_ADA)
    await speak(up, provider, session, "Hello from the other side", BY_BO)
    await speak(up, provider, session, "A slip of the tongue", BY_ADA)
    redaction = {"turn": 3, "reason": "a slip"}
    await send(up, "POST", f"/{session}/redactions", json=redaction, headers=BY_ADA)
    return session


async def list_messages_with(up: TurnlogUp, words: bytes) -> list[str]:
    """Return where in all streams of the store something has these words, headers included."""
    manager = up.service.nats.connection.nc.jsm()
    found = list[str]()
    for stream in await manager.streams_info():
        name = str(stream.config.name)
        for sequence in range(max(1, stream.state.first_seq), stream.state.last_seq + 1):
            try:
                message = await manager.get_msg(name, sequence)
            except NotFoundError:
                continue
            if words.decode() in repr(message):
                found.append(f"{name} {sequence} {message.subject}")
    return found


async def read_answers(up: TurnlogUp, session: str) -> dict[str, str]:
    """Return every answer in which somebody of a session may be named, by path."""
    own = f"/v1/sessions/{session}"
    paths = (
        *("/v1/sessions", f"/v1/sessions?user={ADA}", "/v1/approvals", "/v1/events"),
        *(own, f"{own}/history", f"{own}/events", f"{own}/events?stored=true"),
        *(f"{own}/calls/1.1/why", f"{own}/calls", f"{own}/verify", f"{own}/erasures"),
        *("/v1/usage?group_by=user", "/v1/usage?group_by=model"),
    )
    found = dict[str, str]()
    for path in paths:
        answer = await up.service.http.get(path)
        assert answer.status_code in {200, 410}, answer.text
        found[path] = answer.text
    return found


async def test_names_are_in_no_message_and_every_answer_and_gone_once_the_user_is_erased(
    named_up: TurnlogUp, provider: OpenAIServer, tmp_path: Path
) -> None:
    service, data = named_up.service, named_up.ready_file.parent
    session = await run_named_session(named_up, provider)
    for name in (ADA, BO):
        assert await list_messages_with(named_up, name.encode()) == []
    events = (await service.get_json(f"/v1/sessions/{session}/events"))["events"]
    actors = {each["actor"] for each in events if each["actor"].startswith("user:")}
    assert actors == {f"user:{ADA}", f"user:{BO}"}
    assert events[0]["data"]["owner"] == ADA
    asked = [each["data"].get("user") for each in events if "turn-submitted" in each["type"]]
    assert asked == [ADA, BO, ADA]
    shown = await service.get_json(f"/v1/sessions/{session}")
    assert (shown["owner"], shown["shares"][0]["user"]) == (ADA, BO)
    assert sum(ADA in answer for answer in (await read_answers(named_up, session)).values()) > 6

    form = {"user": ADA, "reason": "request 4711"}
    done = (await service.http.post("/v1/erasures", json=form)).json()
    assert [each["status"] for each in done["receipts"]] == ["erased"], done
    for name in (ADA, BO):
        assert list(list_files_with(data, name.encode())) == []
        assert await list_messages_with(named_up, name.encode()) == []
        answers = (await read_answers(named_up, session)).items()
        assert [path for path, answer in answers if name in answer and name not in path] == []
    events = (await service.get_json(f"/v1/sessions/{session}/events"))["events"]
    left = [each["data"].get("user") for each in events if "turn-submitted" in each["type"]]
    assert left[0] == left[2] != left[1], "what a person did can still be told from the rest"
    assert events[0]["data"]["owner"] == left[0]
    assert all(map(is_pseudonym, left))
    again = (await service.http.post("/v1/erasures", json=form)).json()
    assert (again["receipts"], again["skipped"]) == ([], []), "it was found, and is erased"

    begun = done["receipts"][0]["erasure"]
    await sign(named_up, tmp_path / "receipt.json", session, begun)
    bundle = await export(named_up, tmp_path / "bundle", session)
    assert ADA.encode() not in (tmp_path / "receipt.json").read_bytes()
    assert list(list_files_with(bundle, ADA.encode())) == []
    ran = run_stranger(tmp_path, "bundle", "receipt.json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    await run_command(named_up, "verify", session)
    await run_command(named_up, "verify", "--all")


async def test_user_who_erases_an_own_session_is_named_nowhere_and_still_reaches_it(
    named_up: TurnlogUp, provider: OpenAIServer
) -> None:
    session = await open_as(named_up, BY_ADA)
    await speak(named_up, provider, session, "My words", BY_ADA)
    one = {"reason": "of my own", "turn": 1, "of": "text"}
    text = await send(named_up, "POST", f"/{session}/erasures", json=one, headers=BY_ADA)
    keyed = {**BY_ADA, "Idempotency-Key": "once"}
    query = {"reason": "of my own"}
    whole = [
        await send(named_up, "DELETE", f"/{session}", params=query, headers=keyed) for _ in range(2)
    ]
    assert whole[0]["erasure"] == whole[1]["erasure"], "the same erasure"
    for receipt in (text, *whole):
        assert receipt["status"] == "erased", receipt
        assert is_pseudonym(receipt["by"].removeprefix("user:"))
    assert (await send(named_up, "GET", f"/{session}", headers=BY_ADA))["closed"]
    refused = await named_up.service.http.get(f"/v1/sessions/{session}", headers=BY_BO)
    assert refused.json()["code"] == "unknown-session"
    assert await list_messages_with(named_up, ADA.encode()) == []
    assert list(list_files_with(named_up.ready_file.parent, ADA.encode())) == []


async def test_turn_of_a_user_in_the_session_of_another_is_erased_with_the_name(
    named_up: TurnlogUp, provider: OpenAIServer, tmp_path: Path
) -> None:
    service = named_up.service
    session = await open_as(named_up, BY_BO)
    await speak(named_up, provider, session, "I am Bo", BY_BO)
    await speak(named_up, provider, session, "and I am Cleo", BY_CLEO)
    before = await export(named_up, tmp_path / "before", session)
    form = {"user": CLEO, "reason": "request"}
    done = (await service.http.post("/v1/erasures", json=form)).json()
    assert [each["sessions"][0]["turns"] for each in done["receipts"]] == [
        [{"turn": 2, "of": "turn"}]
    ]
    events = (await service.get_json(f"/v1/sessions/{session}/events"))["events"]
    asked = [each["data"]["user"] for each in events if "turn-submitted" in each["type"]]
    assert asked[0] == BO
    assert is_pseudonym(asked[1])
    assert list(list_files_with(named_up.ready_file.parent, CLEO.encode())) == []
    after = await export(named_up, tmp_path / "after", session)
    for bundle in (before, after):
        assert run_verifier(bundle) == (6, "UNWITNESSED")
    report = await service.get_json(f"/v1/sessions/{session}/verify")
    assert (report["verified"], report["reproduction"]) == (True, "erased"), report


async def test_user_whose_name_has_the_form_of_a_pseudonym_is_refused(named_up: TurnlogUp) -> None:
    headers = {"X-Forwarded-User": "~0123456789abcdefghijkl"}
    refused = await named_up.service.http.get("/v1/sessions", headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (400, "bad-actor")
