"""The TypeScript client, compiled and run by node against a running service."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

import pytest

from tests.docs.doc_pages import ROOT
from tests.support.processes.process_host import ProcessHost
from tests.support.processes.turnlog_up import TurnlogUp, run_turnlog_up
from tests.support.servers.fault_proxy import run_fault_proxy
from tests.support.servers.hostile_http_server import run_hostile_server
from tests.support.servers.model_behaviours import ModelAnswer
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.content import compute_digest
from turnlog.events.model.turn_events import TurnSubmitted

CLIENT: Final = ROOT / "client/typescript"

PROGRAMS: Final = ROOT / ".venv/typescript/node_modules/.bin"

MISSING_REASON: Final = (
    "there is no node to run it"
    if shutil.which("node") is None
    else "npm did not bring the compiler: remove .venv/typescript and `make install`"
    if not (PROGRAMS / "tsc").exists()
    else ""
)

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(bool(MISSING_REASON), reason=MISSING_REASON),
    pytest.mark.slow("it starts a service and a consumer beside it"),
]

CONSUMER: Final = Path(__file__).with_name("typescript_consumer.ts")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that uses the client, type-checked and compiled with it."""
    folder = tmp_path_factory.mktemp("typescript")
    shutil.copytree(CLIENT, folder, dirs_exist_ok=True)
    shutil.copy(CONSUMER, folder / "src/consumer.ts")
    document = ROOT / "docs/reference/openapi.json"
    commands: tuple[list[str | Path], ...] = (
        [PROGRAMS / "openapi-typescript", document, "--output", folder / "src/api.ts"],
        [PROGRAMS / "tsc", "--project", folder],
    )
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "dist/consumer.js"


@asynccontextmanager
async def run_consumer(program: Path, *arguments: str) -> AsyncGenerator[Process]:
    process = await asyncio.create_subprocess_exec("node", program, *arguments, stdout=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def read_lines(process: Process) -> list[Any]:
    """Read all that a consumer prints; it must end well."""
    assert process.stdout
    printed = await process.stdout.read()
    assert await process.wait() == 0
    return [json.loads(line) for line in printed.splitlines()]


async def test_client_runs_a_conversation_from_first_to_last_turn(
    up: TurnlogUp, provider: OpenAIServer, program: Path
) -> None:
    provider.queue_behaviours(
        ModelAnswer(tokens=("Paris.",)), ModelAnswer(tokens=("About two ", "million."))
    )
    async with run_consumer(program, "converse", str(up.service.http.base_url)) as process:
        described, *answers = await read_lines(process)
    assert described == ["Capitals", ["ts"], {"thread": "t-17"}]
    first, *streamed, replies, preview, excluded, names, refused = answers
    assert first == ["completed", "Paris."]
    assert "".join(streamed) == "About two million.done"
    assert (replies, excluded) == (["Paris.", "About two million."], 1)
    assert preview == [1, [], [], 0]
    settled = ["turn-submitted", "turn-completed"]
    assert names == [*settled, *settled, "turn-excluded"]
    assert refused == ["unknown-blueprint", "blueprint", "write `assistant`"]


async def test_stream_resumes_where_its_connection_broke(
    up: TurnlogUp, provider: OpenAIServer, program: Path
) -> None:
    gate = asyncio.Event()
    provider.queue_behaviours(ModelAnswer(tokens=("It goes ", "on ", "and on."), gates={1: gate}))
    session = await up.service.open_session()
    async with run_fault_proxy(str(up.service.http.base_url)) as proxy:
        address = f"http://127.0.0.1:{urlsplit(proxy.url).port}"
        async with run_consumer(program, "stream", address, session) as process:
            assert process.stdout
            first = json.loads(await process.stdout.readline())
            proxy.cut_connections()
            gate.set()
            assert first + "".join(await read_lines(process)) == "It goes on and on.done"


@asynccontextmanager
async def run_cutting_proxy(http: str, most: int) -> AsyncGenerator[tuple[str, list[int]]]:
    """Run a proxy that cuts a connection once, after so many bytes, and counts what is sent."""
    target, sent, is_cut = urlsplit(http), list[int](), asyncio.Event()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        server, forth = await asyncio.open_connection(target.hostname, target.port)
        answering = asyncio.create_task(forward(server, back))
        try:
            while data := await client.read(65_536):
                sent.append(len(data))
                forth.write(data)
                await forth.drain()
                if sum(sent) > most and not is_cut.is_set():
                    is_cut.set()
                    break
        finally:
            back.close()
            forth.close()
            await answering

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listener:
        _, port = listener.sockets[0].getsockname()
        yield f"http://127.0.0.1:{port}", sent


async def test_upload_goes_on_where_its_connection_broke(up: TurnlogUp, program: Path) -> None:
    content = b"%PDF-" + b"\x01" * 999_995
    async with (
        run_cutting_proxy(str(up.service.http.base_url), 500_000) as (address, sent),
        run_consumer(program, "upload", address) as process,
    ):
        stored, again, refused = await read_lines(process)
    digest = compute_digest(content)
    assert (
        stored == again == {"digest": digest, "size": len(content), "media_type": "application/pdf"}
    )
    assert refused == "unsupported-media"
    assert (await up.service.http.get(f"/v1/blobs/{quote(digest)}")).content == content
    # Most of what was on its way when the connection was cut has arrived and is not sent again.
    assert len(content) < sum(sent) < len(content) + 400_000


async def test_reasoning_is_streamed_and_in_the_history_where_it_is_asked_for(
    up: TurnlogUp, provider: OpenAIServer, program: Path
) -> None:
    # Reasoning is sent while it is written, so the answer waits until some was received.
    received = asyncio.Event()
    answer = ModelAnswer(
        reasoning=("Is it \U0001f600", " or not?"), tokens=("It is.",), gates={0: received}
    )
    provider.queue_behaviours(answer, answer)
    async with run_consumer(program, "reason", str(up.service.http.base_url)) as process:
        assert process.stdout
        first = json.loads(await process.stdout.readline())
        received.set()
        *streamed, histories = first, *await read_lines(process)
    pieces = [each for each in streamed if not isinstance(each, str)]
    thought = "".join(answer.reasoning)
    assert "".join(text for _, text in pieces) == thought
    assert all(thought[offset:].startswith(text) for offset, text in pieces)
    assert "".join(streamed[len(pieces) :]) == "It is."
    assert histories == [[thought, thought], [None, None]]


async def test_command_with_a_lost_answer_is_executed_once(up: TurnlogUp, program: Path) -> None:
    session = await up.service.open_session()
    async with run_fault_proxy(str(up.service.http.base_url)) as proxy:
        address = f"http://127.0.0.1:{urlsplit(proxy.url).port}"
        proxy.drop_server_data()
        async with run_consumer(program, "submit", address, session) as process:
            await up.service.wait_for_event(session, TurnSubmitted)
            proxy.reset_faults()
            assert await read_lines(process) == [1]
    assert len(await up.service.list_events_of_type(session, TurnSubmitted)) == 1


async def test_turn_that_needs_approval_is_reported_at_once(
    up: TurnlogUp, provider: OpenAIServer, program: Path
) -> None:
    asked = ("time_get_current_time", '{"timezone": "UTC"}')
    provider.queue_behaviours(
        ModelAnswer(tokens=(), finish="tool_calls", tool_calls=(asked,)),
        ModelAnswer(tokens=("Noon.",)),
    )
    async with run_consumer(program, "approve", str(up.service.http.base_url)) as process:
        refused, needed, done = await read_lines(process)
    assert refused == [[], None]
    assert needed == [1, 1, "time_get_current_time", {"timezone": "UTC"}]
    assert done == [1, "stop"]


async def test_turn_continues_after_the_caller_stops_waiting(
    up: TurnlogUp, provider: OpenAIServer, program: Path
) -> None:
    gate = asyncio.Event()
    provider.queue_behaviours(ModelAnswer(tokens=("At ", "last."), gates={0: gate}))
    session = await up.service.open_session()
    address = str(up.service.http.base_url)
    async with run_consumer(program, "leave", address, session) as process:
        assert await read_lines(process) == [True]
    gate.set()
    assert len(await up.service.list_events_of_type(session, TurnSubmitted)) == 1


async def test_abort_signal_ends_an_idle_stream_of_selected_types(
    up: TurnlogUp, program: Path
) -> None:
    session = await up.service.open_session()
    await up.service.run_turn(session, "Hello")
    async with run_consumer(program, "abort", str(up.service.http.base_url), session) as process:
        assert await read_lines(process) == ["turn-submitted"]


async def test_client_manages_knowledge_quotas_and_usage(
    up: TurnlogUp, provider: OpenAIServer, program: Path
) -> None:
    provider.queue_behaviours(ModelAnswer(tokens=("Hello.",)))
    async with run_consumer(program, "share", str(up.service.http.base_url)) as process:
        printed = await read_lines(process)
    assert printed == [
        [1, 1],
        ["harbour", "sailings"],
        [1, 1, "harbour.md"],
        ["harbour"],
        [1, 1],
        "completed",
        1,
        [["[withheld]-o", "all of it", True]],
        [True, "not-retrieved"],
        [[["requests_per_day", 1]], True],
        1,
        [True],
        [["1.1", True, 0]],
        [[True, "read"]],
        ["1.1", True, True, "sha256:"],
        0,
        [1, ["typescript/ann"]],
        ["quota-exceeded", "input_tokens"],
    ]


async def test_client_sets_reads_and_removes_prompt_overrides_of_a_user(
    up: TurnlogUp, program: Path
) -> None:
    async with run_consumer(program, "override", str(up.service.http.base_url)) as process:
        printed = await read_lines(process)
    text = "Answer Eve. {charting} {weather}"
    assert printed == [
        ["typescript/eve", "master_system.md", 1, ["charting"], ["weather"]],
        "llm_only",
        [[None, None], ["llm_only", "openai"]],
        [text, "In a word."],
        [None],
        True,
    ]


async def test_reply_is_followed_between_the_events_of_its_session_and_on_from_a_stored_cursor(
    up: TurnlogUp, provider: OpenAIServer, program: Path
) -> None:
    gate = asyncio.Event()
    provider.queue_behaviours(ModelAnswer(tokens=("It goes ", "on ", "and on."), gates={1: gate}))
    session = await up.service.open_session()
    await up.service.submit_turn(session)
    async with run_consumer(program, "follow", str(up.service.http.base_url), session) as process:
        assert process.stdout
        assert json.loads(await process.stdout.readline()) == ["token", [True, 0]]
        gate.set()
        assert await read_lines(process) == [["It goes on and on.", "turn-completed"]]


async def test_tokens_of_all_sessions_are_between_their_events(
    up: TurnlogUp, provider: OpenAIServer, program: Path
) -> None:
    gate = asyncio.Event()
    provider.queue_behaviours(ModelAnswer(tokens=("Over", "heard."), gates={0: gate}))
    session = await up.service.open_session()
    await up.service.submit_turn(session)
    async with run_consumer(program, "overhear", str(up.service.http.base_url), session) as process:
        assert process.stdout
        assert json.loads(await process.stdout.readline()) == "open"
        gate.set()
        assert await read_lines(process) == ["Overheard."]


async def test_client_manages_webhooks(host: ProcessHost, program: Path) -> None:
    target = "http://127.0.0.1:9/in"
    variables = {"TURNLOG_WEBHOOK_TARGETS": "http://127.0.0.1:9"}
    async with (
        run_turnlog_up(host, variables=variables) as up,
        run_consumer(program, "deliver", str(up.service.http.base_url), target) as process,
    ):
        assert await read_lines(process) == [
            [True, "active", ["session-closed"]],
            ["billing"],
            "paused",
            "active",
            0,
            ["billing", True],
            "webhook-target",
            "billing",
            [],
        ]


async def test_client_erases_words(
    host: ProcessHost, provider: OpenAIServer, program: Path
) -> None:
    provider.queue_behaviours(ModelAnswer(tokens=("So.",)), ModelAnswer(tokens=("Well.",)))
    async with (
        run_turnlog_up(host, variables={"TURNLOG_SEALING": "on"}) as up,
        run_consumer(program, "erase", str(up.service.http.base_url)) as process,
    ):
        assert await read_lines(process) == [
            ["planned", "erased", [["1.1", "2.1"]]],
            [True],
            "erased",
            [[True, True]],
            ["[erased]", "Two."],
            [["erased"], []],
        ]


async def test_client_fetches_a_forecast(
    up: TurnlogUp, provider: OpenAIServer, program: Path
) -> None:
    provider.queue_behaviours(ModelAnswer(tokens=("Hello.",)))
    session = await up.service.open_session()
    await up.service.run_turn(session)
    async with run_consumer(program, "foresee", str(up.service.http.base_url), session) as process:
        assert await read_lines(process) == [[True, 1, True]]


async def test_unreachable_service_is_named_with_the_reason(program: Path) -> None:
    async with run_consumer(program, "explain", "http://127.0.0.1:9") as process:
        ((code, message),) = await read_lines(process)
    assert code == "no-answer"
    assert "http://127.0.0.1:9/v1/sessions was not answered" in message
    assert "connect ECONNREFUSED; see that a service runs at this address" in message


LARGE = ["AnswerTooLarge", "answer-too-large"]

MALFORMED = ["UnusableAnswer", "bad-answer"]

REDIRECTED = ["RequestRedirected", "redirected"]


@pytest.mark.parametrize(
    ("name", "errors"),
    [
        ("endless-body", [LARGE, LARGE]),
        ("gzip-bomb", [LARGE, LARGE]),
        ("endless-event", [LARGE, LARGE]),
        ("redirect", [REDIRECTED, REDIRECTED]),
        ("deep-event", [MALFORMED, MALFORMED]),
    ],
)
async def test_hostile_answers_are_bounded_and_redirections_not_followed(
    program: Path, name: str, errors: list[list[str]]
) -> None:
    async with (
        run_hostile_server() as hostile,
        run_consumer(program, "distrust", hostile.url, name) as process,
    ):
        assert await read_lines(process) == errors
    assert [path.split("/")[3] for path in hostile.paths] == [name, name]
