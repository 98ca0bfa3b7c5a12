"""Marker words through every way into a session and on: after an erasure nothing has them."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.agent_programs.agent_service import (
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.e2e.test_erased_words import add_turns, erase
from tests.e2e.test_forgetting import export, sign
from tests.e2e.test_sealed_sessions import (
    answer_with_picture,
    build_sealed_variables,
    list_files_with,
    run_verifier,
)
from tests.e2e.watching.trace_collector import run_collector
from tests.segment_budgets.game_service import COAST_SEGMENTS, ENTRY
from tests.services.media.media_samples import PNG
from tests.support.processes.process_host import ProcessHost
from tests.support.processes.turnlog_up import TurnlogUp, run_turnlog_up
from tests.support.servers.model_behaviours import ModelAnswer
from tests.support.servers.openai_server import OpenAIServer
from turnlog.services.bundle.bundle_unpacking import unpack_bundle
from turnlog.services.bundle.forgetting_verifier import verify_forgetting
from turnlog.services.identity.permissions import ROUTE_PERMISSIONS

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.slow("a service and a tool server start"),
]

MARKER_START = "qvmarked"
"""What every word has in it that is erased, and nothing else."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def sealed_up(host: ProcessHost) -> AsyncIterator[TurnlogUp]:
    output = host.folder / "output"
    with run_collector() as collector:
        variables = {**build_sealed_variables(host), "TURNLOG_OTLP_ENDPOINT": collector.url}
        async with run_turnlog_up(host, variables=variables, output_file=output) as up:
            yield up
        assert collector.spans
        assert [each for each in collector.spans if MARKER_START in each.everything] == []


async def send(up: TurnlogUp, method: str, path: str, **form: object) -> dict[str, Any]:
    answer = await up.service.http.request(method, path, json=form, timeout=60)
    assert answer.is_success, answer.text
    return dict(answer.json())


async def run_turn(up: TurnlogUp, session: str, **form: object) -> None:
    turn = await send(up, "POST", f"/v1/sessions/{session}/turns?wait=60", **form)
    assert turn["status"] == "completed", turn


async def use_tools(up: TurnlogUp, provider: OpenAIServer, marker: str) -> str:
    """Plans, arguments and results of tools, and the next plan, which has these results."""
    form = {"blueprint": "uderia", "profile": "tool_enabled"}
    session = str((await send(up, "POST", "/v1/sessions", **form))["session"])
    provider.queue_behaviours(
        answer_with_plan((f"{marker} goal", ["far_fail"])),
        answer_with_tool_calls(("far_fail", {"why": f"{marker} result"})),
        answer_with_tool_calls(("far_rows", {"count": 3})),
        answer_with_text(f"{marker} reply"),
        answer_with_plan(),
        answer_with_text("second reply"),
    )
    await run_turn(up, session, text="question")
    await run_turn(up, session, text="second question")
    assert marker in str(provider.exchanges[-2].body["messages"]), "the next plan has results"
    return session


async def describe_session(up: TurnlogUp, provider: OpenAIServer, marker: str) -> str:
    """All that describes a session and its turns, beside what is said."""
    opened = await send(
        up,
        "POST",
        "/v1/sessions",
        blueprint="uderia",
        profile="llm_only",
        title=f"{marker} title",
        labels=[f"{marker}-label"],
        metadata={"note": marker},
        attributes={"instructions": f"{marker} attribute"},
    )
    session = str(opened["session"])
    path = f"/v1/sessions/{session}"
    provider.queue_behaviours(answer_with_text("Well."), answer_with_text("So."))
    form = {"inputs": {"material": f"{marker} input"}, "meta": {marker: marker}}
    await run_turn(up, session, text="question", **form)
    await run_turn(up, session, text=f"{marker} told by the system", role="system")
    await send(up, "PUT", f"{path}/turns/1/display", text=f"<b>{marker}</b>", reply=f"_{marker}_")
    await send(up, "POST", f"{path}/turns/1/feedback", vote="up", comment=f"{marker} comment")
    await send(up, "PATCH", path, title=f"{marker} later title", metadata={marker: marker})
    await send(up, "POST", f"{path}/redactions", turn=1, reason=f"{marker} reason")
    return session


async def carry_summary(up: TurnlogUp, provider: OpenAIServer, marker: str) -> str:
    """A summary that a phase is given from the one before."""
    session = str((await send(up, "POST", "/v1/sessions", blueprint="uderia"))["session"])
    provider.queue_behaviours(answer_with_text("Well."), answer_with_text("So."))
    await run_turn(up, session, text=f"{marker} question")
    await send(up, "POST", f"/v1/sessions/{session}/phase", to="focus", carry=f"{marker} carried")
    await run_turn(up, session, text="second question")
    assert f"{marker} carried" in str(provider.exchanges[-1].body["messages"])
    return session


async def summarise_history(up: TurnlogUp, provider: OpenAIServer, marker: str) -> str:
    def choose_answer(body: dict[str, Any]) -> ModelAnswer:
        last = str(body["messages"][-1]["content"])
        is_summary = last.startswith("Summarise the conversation above.")
        return answer_with_text(f"{marker} summary" if is_summary else f"{last} " * 200)

    provider.choose_behaviour = choose_answer
    session = await up.service.open_session("uderia")
    while f"{marker} summary" not in str(provider.exchanges[-1:]):
        await run_turn(up, session, text=f"{marker} asks {len(provider.exchanges)}")
    provider.choose_behaviour = None
    return session


async def ask_children(up: TurnlogUp, provider: OpenAIServer, marker: str) -> str:
    form = {"blueprint": "uderia", "profile": "genie"}
    session = str((await send(up, "POST", "/v1/sessions", **form))["session"])

    def choose_answer(body: dict[str, Any]) -> ModelAnswer:
        messages = body["messages"]
        if any(each["role"] == "tool" for each in messages):
            return answer_with_text(f"{marker} reply")
        if "query" in str(messages[-1]["content"]):
            return answer_with_text(f"{marker} child")
        return answer_with_tool_calls(("llm_only", {"query": f"{marker} query"}))

    provider.choose_behaviour = choose_answer
    await run_turn(up, session, text="task", inputs={"material": f"{marker} input"})
    provider.choose_behaviour = None
    return session


async def ask_resolver(up: TurnlogUp, provider: OpenAIServer, marker: str) -> str:
    provider.queue_behaviours(answer_with_text(f"{marker} answer"), answer_with_text("So."))
    form = {"client_id": "bank", "conversation_id": f"{marker}-conversation"}
    for question in (f"How risky is LOGT11, {marker}?", "And what is its price?"):
        await send(up, "POST", "/v1/ask", question=question, nickname=marker, **form)
    sessions = (await up.service.http.get("/v1/sessions?blueprint=araquem")).json()["sessions"]
    return str(sessions[0]["session"])


async def tell_story(up: TurnlogUp, provider: OpenAIServer, marker: str) -> str:
    await send(up, "POST", "/v1/segments/import", segments=COAST_SEGMENTS)
    form = {"blueprint": "game-master", "attributes": {**ENTRY, "game": marker}}
    session = str((await send(up, "POST", "/v1/sessions", **form))["session"])
    provider.queue_behaviours(answer_with_text("Once."), answer_with_text("Twice."))
    inputs = dict.fromkeys(("game_state", "player", "rng", "input_text"), f"{marker} input")
    await run_turn(up, session, text=f"{marker} text", inputs=inputs)
    await run_turn(up, session, text="go on")
    return session


async def send_pictures(up: TurnlogUp, provider: OpenAIServer, marker: str) -> str:
    session = await up.service.open_session("assistant")
    picture, drawn = (PNG + f"{marker} {each}".encode() for each in ("sent", "drawn"))
    provider.queue_behaviours(answer_with_picture("Here.", drawn), answer_with_text("So."))
    part = {"type": "image", "data": b64encode(picture).decode(), "name": f"{marker}.png"}
    await run_turn(up, session, parts=[{"type": "text", "text": marker}, part])
    await run_turn(up, session, text="second question")
    return session


async def preview_and_fork(up: TurnlogUp, provider: OpenAIServer, marker: str) -> str:
    """Prompts that are only looked at, and a fork that goes on."""
    session = await up.service.open_session("uderia")
    await add_turns(up, provider, session, f"{marker} one", "two")
    path = f"/v1/sessions/{session}"
    await send(up, "POST", f"{path}/window", text=f"{marker} in a preview")
    altered = await up.service.http.post("/v1/what-if", json={"sessions": [session], "budget": 200})
    assert altered.is_success, altered.text
    end = (await up.service.get_json(path))["sequence"]
    fork = str((await send(up, "POST", f"{path}/fork", at=end))["session"])
    await add_turns(up, provider, fork, f"{marker} three")
    return session


WAYS: tuple[Callable[[TurnlogUp, OpenAIServer, str], Awaitable[str]], ...] = (
    use_tools,
    describe_session,
    carry_summary,
    summarise_history,
    ask_children,
    ask_resolver,
    tell_story,
    send_pictures,
    preview_and_fork,
)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_words_that_came_by_any_way_are_in_no_file_and_no_answer_once_erased(
    sealed_up: TurnlogUp,
    provider: OpenAIServer,
    way: Callable[[TurnlogUp, OpenAIServer, str], Awaitable[str]],
    tmp_path: Path,
) -> None:
    marker = f"{MARKER_START}{way.__name__.replace('_', '')}"
    session = await way(sealed_up, provider, marker)
    folder = sealed_up.ready_file.parent.parent
    jetstream = sealed_up.ready_file.parent / "jetstream"
    assert list(list_files_with(jetstream, marker.encode())) == []
    receipt = await erase(sealed_up, session)
    assert receipt["status"] == "erased", receipt
    assert list(list_files_with(folder, marker.encode())) == []
    exported = await sealed_up.service.http.get(f"/v1/sessions/{session}/export?format=bundle")
    (tmp_path / "bundle.zip").write_bytes(exported.content)
    unpack_bundle(tmp_path / "bundle.zip", tmp_path / "bundle")
    assert run_verifier(tmp_path / "bundle") == (6, "UNWITNESSED")
    for each in receipt["sessions"]:
        report = await sealed_up.service.get_json(f"/v1/sessions/{each['session']}/verify")
        assert (report["verified"], report["reproduction"]) == (True, "erased"), json.dumps(report)
        answers = await read_every_route(sealed_up, each["session"])
        assert [path for path, text in answers.items() if marker in text] == []


@pytest.mark.parametrize(
    ("way", "turn"),
    [*((way, 1) for way in WAYS), (ask_children, None)],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
async def test_stranger_sees_that_words_are_forgotten_by_whatever_way_they_came(
    sealed_up: TurnlogUp,
    provider: OpenAIServer,
    way: Callable[[TurnlogUp, OpenAIServer, str], Awaitable[str]],
    turn: int | None,
    tmp_path: Path,
) -> None:
    session = await way(sealed_up, provider, "words")
    receipt = await erase(sealed_up, session, turn=turn)
    reached = [each["session"] for each in receipt["sessions"]]
    file = tmp_path / "receipt.json"
    await sign(sealed_up, file, session, receipt["erasure"], "--with-keys")
    bundle = await export(sealed_up, tmp_path / "bundle", *reached)
    assert verify_forgetting([str(bundle), str(file)]) == 0


async def read_every_route(up: TurnlogUp, session: str) -> dict[str, str]:
    """Return what every route says that reads a session."""
    answers: dict[str, str] = {}
    for path in ROUTE_PERMISSIONS:
        filled = path.replace("{session}", session).replace("{turn}", "1").replace("{call}", "1.1")
        if "{" not in filled and "stream" not in filled and "watch" not in filled:
            answer = await up.service.http.get(filled, timeout=60)
            assert answer.status_code < 500, answer.text
            answers[path] = answer.text
    return answers
