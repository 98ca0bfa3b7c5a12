"""The shipped `araquem` blueprint on a real service with several gateways and workers.

The service reads a copy of the blueprint that a test may edit. The model is a provider on loopback
that gives the answers a test sets. Everything between a question and the provider's socket is real.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from pydantic import JsonValue

from tests.support.processes.live_service import LiveService, connect_service
from tests.support.processes.process_host import (
    NO_VARIABLES,
    ProcessHost,
    find_free_port,
    run_process_host,
    stop_cleanly,
)
from tests.support.processes.separate_roles import build_settings
from tests.support.processes.turnlog_process import TurnlogProcess
from tests.support.servers.model_behaviours import ModelAnswer
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import AttemptStarted
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.projections.blueprint.validation.input_values import compute_session_id
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS, BlueprintFolders
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

RISK = "How risky is LOGT11?"

PRICE = "And what is its price?"

RISK_ANSWER = "The volatility of LOGT11 over a year is 9.1 %."

PRICE_ANSWER = "LOGT11 was last traded at BRL 101.20."

UNRESOLVED_QUESTION = "Sing me a song."

POLICY = "policies/context.yaml"


@dataclass(repr=False, kw_only=True)
class QuestionService:
    """A running service; requests go to its gateways in turn."""

    host: ProcessHost
    provider: OpenAIServer
    services: list[LiveService]
    client: str = "bank"
    processes: list[TurnlogProcess] = field(default_factory=list[TurnlogProcess])
    request_count: int = 0

    @property
    def service(self) -> LiveService:
        """The gateway that gets the next request."""
        self.request_count += 1
        return self.services[self.request_count % len(self.services)]

    @property
    def blueprint(self) -> Path:
        """The folder of the copied blueprint."""
        return self.host.folder / "blueprints/araquem"

    async def post_question(
        self,
        question: str,
        conversation: str = "c",
        /,
        *,
        key: str | None = None,
        **other: JsonValue,
    ) -> httpx.Response:
        """Post a question to `/v1/ask` and return the response."""
        form = {"question": question, "conversation_id": conversation, "nickname": "Ada"}
        headers = {"Idempotency-Key": key} if key else {}
        form |= {"client_id": self.client}
        return await self.service.http.post("/v1/ask", json={**form, **other}, headers=headers)

    async def submit_question(self, question: str, conversation: str = "c", /, **other: str) -> Any:  # noqa: ANN401 - JSON
        """Post a question and return the answer; a refusal fails the test."""
        answer = await self.post_question(question, conversation, **other)
        assert answer.status_code == 200, answer.text
        return answer.json()

    @contextmanager
    def edit_file(self, file: str, text: str) -> Generator[None]:
        """Replace the text of a blueprint file while the block runs."""
        place = self.blueprint / file
        before = place.read_text()
        place.write_text(text)
        try:
            yield
        finally:
            place.write_text(before)

    def get_session_id(self, conversation: str) -> str:
        return compute_conversation_session(conversation, self.client)

    async def fetch_session_part(self, conversation: str, what: str = "", **query: str) -> Any:  # noqa: ANN401 - JSON
        """Fetch `/v1/sessions/{session}` or a path below it."""
        path = f"/v1/sessions/{self.get_session_id(conversation)}{what}"
        return await self.service.get_json(path, **query)

    async def list_memory_messages(self, conversation: str, **query: str) -> list[str]:
        """Return the messages of the memory, one line each."""
        messages = (await self.fetch_session_part(conversation, "/memory", **query))["messages"]
        return [f"{message['role']}: {message['content']}" for message in messages]

    async def fetch_prompt(self, conversation: str, call: str) -> dict[str, Any]:
        """Return the prompt of a call and require that it is verified."""
        prompt = await self.fetch_session_part(conversation, f"/calls/{call}/prompt")
        assert prompt["verified"], prompt["fault"]
        return dict(prompt)

    async def load_events(self, conversation: str) -> list[RecordedEvent]:
        """Give all events of a conversation's session."""
        return await self.service.list_events(self.get_session_id(conversation))

    async def list_event_kinds(self, conversation: str) -> list[str]:
        """Return the event names of a conversation's session."""
        events = await self.load_events(conversation)
        return [event.envelope.type.split(".")[1] for event in events]


def answer_with_text(*words: str) -> ModelAnswer:
    return ModelAnswer(tokens=words)


def compute_conversation_session(conversation: str, client: str) -> str:
    """Return the session id that a conversation id and a client id give."""
    key = {"client_id": client, "conversation_id": conversation}
    return compute_session_id(
        BlueprintFolders((SHIPPED_BLUEPRINTS,)).load_blueprint("araquem"), key
    )


@dataclass(frozen=True, slots=True, repr=False)
class QuestionHost:
    """A process host with a running nats-server and no Turnlog process yet."""

    host: ProcessHost
    server: NatsServer


@asynccontextmanager
async def prepare_question_host(
    folder: Path, provider: OpenAIServer, extra_variables: Mapping[str, str] = NO_VARIABLES
) -> AsyncGenerator[QuestionHost]:
    """Give a town whose araquem is read from a copy under `folder`."""
    shutil.copytree(SHIPPED_BLUEPRINTS / "araquem", folder / "blueprints/araquem")
    async with await NatsServer.start(NatsConfig(data_dir=folder / "nats")) as server:
        places = {
            "TURNLOG_NATS_URL": server.url,
            "TURNLOG_DATABASE_URL": f"sqlite+aiosqlite:///{folder}/turnlog.db",
            "TURNLOG_BLUEPRINTS": str(folder / "blueprints"),
            "TURNLOG_ACK_WAIT": "60",
        }
        async with run_process_host(
            folder, {**build_settings(provider), **places, **extra_variables}
        ) as host:
            yield QuestionHost(host, server)


@asynccontextmanager
async def start_question_service(
    place: QuestionHost,
    provider: OpenAIServer,
    *,
    gateways: int = 1,
    workers: int = 1,
    client: str = "bank",
    warm_up: bool = True,
) -> AsyncGenerator[QuestionService]:
    """Start gateways and workers; they are stopped on exit and the log stays.

    The first call of a worker loads litellm, which on a busy machine can take longer than the
    deadline of the shipped blueprint. With `warm_up` each worker has made such a call.
    """
    host, url = place.host, place.host.variables["TURNLOG_NATS_URL"]
    async with AsyncExitStack() as open_:
        running = QuestionService(host=host, provider=provider, services=[], client=client)
        for _ in range(gateways):
            port = find_free_port()
            variables = {"TURNLOG_HTTP": f"127.0.0.1:{port}"}
            running.processes.append(
                await host.start_process("run", "gateway", variables=variables)
            )
            service = await open_.enter_async_context(
                connect_service(f"http://127.0.0.1:{port}", url)
            )
            running.services.append(service)
        running.processes += [await host.start_process("run", "worker") for _ in range(workers)]
        try:
            for service, process in zip(running.services, running.processes, strict=False):
                await service.wait_until_ready(process)
            if warm_up:
                await _warm_up_workers(running, workers)
            yield running
        finally:
            await stop_cleanly(*running.processes)


async def _warm_up_workers(running: QuestionService, count: int) -> None:
    """Ask until each worker has answered a question by its model."""
    warm: set[str] = set()
    number = 0
    while len(warm) < count:
        names = [f"warm-up {number}.{n}" for n in range(count)]
        await asyncio.gather(*(running.submit_question(RISK, name) for name in names))
        for name in names:
            events = [each.event for each in await running.load_events(name)]
            if any(isinstance(event, TurnCompleted) and event.call for event in events):
                warm |= {each.worker for each in events if isinstance(each, AttemptStarted)}
        number += 1
