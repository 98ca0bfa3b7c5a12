"""The agent service over HTTP: a gateway, a worker with litellm, and a scripted model server.

Everything runs in one process. Only the words of the model and the tool server are fakes; a test
may set real tool servers. A test of a requirement gives a blueprint and the model's answers, and
checks the requests to the model, the events on the log and the answers of the routes. The tests of
a module share one service, so they set `pytestmark = pytest.mark.asyncio(loop_scope="module")`.
Each test opens its own sessions, and the fixture reproduces all their calls when the test ends.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import copytree
from types import MappingProxyType
from typing import Any, TypeVar

import httpx
import pytest

from tests.agent_programs.agent_harness import FakeToolServer, build_agent_blueprint
from tests.services.gateway.gateway_service import (
    MemoryBackend,
    RunningGateway,
    build_worker,
    cancel_tasks,
    run_worker,
    start_service,
)
from tests.services.gateway.streaming.sse_client import StreamingResponse as Watched
from tests.services.gateway.streaming.sse_client import open_stream
from tests.support.servers.model_behaviours import ModelAnswer, ModelBehaviour
from tests.support.servers.openai_server import OpenAIServer
from tests.support.sessions.event_parts import find_part
from tests.support.sessions.reproduction_checks import verify_session_log
from turnlog.events.envelope import RecordedEvent
from turnlog.events.registry import KnownEvent, format_event_name
from turnlog.projections.blueprint.loading.blueprint_source import BLUEPRINT_FILE
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, encode_blueprint
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS
from turnlog.services.model_facts.attempt_pricing import AttemptPricing
from turnlog.services.model_facts.model_dialects import ModelDialects
from turnlog.services.model_facts.model_prices import ModelPrices
from turnlog.services.worker.attempts.retrieval_step import EmptyKnowledge
from turnlog.services.worker.model.litellm_model import LitellmModel
from turnlog.services.worker.turn_runner import TurnRunner

MODEL = "openai/heron"

SHIPPED_RETRIES = "  retries: {max: 5, base_seconds: 1}\n"
"""The policy of the shipped `uderia` that edits of its policies replace."""

Kind = TypeVar("Kind", bound=KnownEvent)


def answer_with_plan(*steps: tuple[str, Sequence[str]], **more: object) -> ModelAnswer:
    """Return an answer that is a plan: the goal of each step and the tools it names."""
    named = [{"goal": goal, "tools": [*tools]} for goal, tools in steps]
    return answer_with_text(json.dumps({"steps": named, **more}))


def answer_with_tool_calls(*requests: tuple[str, dict[str, Any]]) -> ModelAnswer:
    """Return an answer that requests tool calls, each by tool name and arguments."""
    calls = tuple((tool, json.dumps(arguments)) for tool, arguments in requests)
    return ModelAnswer(tokens=(), finish="tool_calls", tool_calls=calls)


def answer_with_text(*tokens: str) -> ModelAnswer:
    """Return an answer that is a text."""
    return ModelAnswer(tokens=tokens)


TWO_STEP_ANSWERS: tuple[ModelAnswer, ...] = (
    answer_with_plan(("Find a hammer.", ["shop_look"]), ("Pay for it.", ["shop_pay"])),
    answer_with_tool_calls(("shop_look", {"what": "hammer"})),
    answer_with_tool_calls(("shop_pay", {"what": "hammer"})),
    answer_with_text("It is ", "yours."),
)
"""The answers of a turn of two steps: calls n.1 to n.4."""


@dataclass(repr=False, kw_only=True)
class AgentService:
    """A running service with agents, with access to its log and to its model server."""

    gateway: RunningGateway
    backend: MemoryBackend
    provider: OpenAIServer
    worker: TurnRunner
    """Its `servers` may be exchanged for real ones."""
    shop: FakeToolServer
    folder: Path
    """The folder of the blueprints, each in a subfolder of its name."""
    opened_sessions: list[str] = field(default_factory=list[str])
    """The sessions of the current test."""

    def reset_for_test(self) -> AgentService:
        """Return the same service for the next test, without sessions and recorded requests."""
        self.provider.clear_exchanges()
        self.worker.servers = shop = FakeToolServer()
        self.worker.knowledge = EmptyKnowledge()
        return replace(self, shop=shop, opened_sessions=[])

    async def find_unreproducible_calls(self) -> list[str]:
        """Say what of this test's calls cannot be had again."""
        blobs = {digest: blob for (_, digest), blob in self.backend.blobs.blobs.items()}
        found = [list(await self.load_recorded_events(session)) for session in self.opened_sessions]
        return [wrong for events in found for wrong in verify_session_log(events, blobs)]

    @property
    def http(self) -> httpx.AsyncClient:
        """The HTTP client of the gateway."""
        return self.gateway.http

    async def open_session(self, kind: Blueprint | None = None, **form: object) -> str:
        """Write a blueprint, open a session of it and return the session id."""
        kind = kind or build_agent_blueprint()
        file = self.folder / kind.blueprint / BLUEPRINT_FILE
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(encode_blueprint(kind))
        session = await self.gateway.open_session(kind.blueprint, **form)
        self.opened_sessions.append(session)
        return session

    def copy_shipped_blueprint(
        self, shipped: str, name: str, edits: Mapping[str, str] = MappingProxyType({})
    ) -> Path:
        """Copy a shipped blueprint under another name, with texts of its file replaced.

        Returns the folder. Raises `ValueError` if the file lacks a text that is to be replaced, or
        if an earlier copy of this name has other texts.
        """
        folder = self.folder / name
        written = (Path(SHIPPED_BLUEPRINTS) / shipped / BLUEPRINT_FILE).read_text()
        for before, after in {f"blueprint: {shipped}": f"blueprint: {name}", **edits}.items():
            if before not in written:
                raise ValueError(before)
            written = written.replace(before, after)
        if not folder.exists():
            copytree(Path(SHIPPED_BLUEPRINTS) / shipped, folder)
            (folder / BLUEPRINT_FILE).write_text(written)
        elif (folder / BLUEPRINT_FILE).read_text() != written:
            raise ValueError(f"{name} was copied with other edits")
        return folder

    async def open_shipped_session(self, blueprint: str, **form: object) -> str:
        """Open a session of a blueprint that ships, and return the session id."""
        session = await self.gateway.open_session(blueprint, **form)
        self.opened_sessions.append(session)
        return session

    async def submit_turn(
        self,
        session: str,
        *answers: ModelBehaviour,
        text: object = "Get me a hammer.",
        **form: object,
    ) -> dict[str, Any]:
        """Submit a turn, of a text or a list of parts; return it as the answers settle it."""
        self.provider.queue_behaviours(*answers)
        path = f"/v1/sessions/{session}/turns?wait=60"
        answer = await self.http.post(path, json={"text": text} | form)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def complete_turn(self, session: str, *answers: ModelBehaviour, **form: Any) -> None:  # noqa: ANN401
        """Submit a turn and require that it completes."""
        turn = await self.submit_turn(session, *answers, **form)
        assert turn["status"] == "completed", turn

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The request bodies that the model server received, in order."""
        return [exchange.body for exchange in self.provider.exchanges]

    def get_request_texts(self, number: int) -> list[str]:
        """Return the message contents of one request; requests count from 0."""
        return [str(each["content"]) for each in self.bodies[number]["messages"]]

    def list_offered_tools(self) -> list[list[str]]:
        """Return the names of the tools in each request."""
        tool_lists = [body.get("tools", ()) for body in self.bodies]
        return [[tool["function"]["name"] for tool in tools] for tools in tool_lists]

    async def load_recorded_events(self, session: str) -> Sequence[RecordedEvent]:
        """Give all events of a session so far."""
        log, tenant = self.backend.log, self.gateway.tenant
        last = await log.read_last_event(tenant, session, leader=True)
        return await log.read_range(tenant, session, None, last) if last else ()

    async def load_events(self, session: str, kind: type[Kind]) -> list[Kind]:
        return [
            part
            for each in await self.load_recorded_events(session)
            if (part := find_part(each.event, kind))
        ]

    async def list_event_names(self, session: str) -> list[str]:
        """Name the events of a session in order."""
        return [
            format_event_name(each.envelope.type)
            for each in await self.load_recorded_events(session)
        ]

    async def fetch_json(self, path: str, **query: Any) -> Any:  # noqa: ANN401 - JSON of any shape
        return await self.gateway.fetch_json(path, **query)

    async def list_calls(self, session: str) -> list[dict[str, Any]]:
        """Return the calls of a session, once the read models hold its last event."""
        last = (await self.load_recorded_events(session))[-1].sequence
        path = f"/v1/sessions/{session}/calls"
        return list((await self.fetch_json(path, min_sequence=last))["calls"])

    async def fetch_prompt(self, session: str, call: str) -> dict[str, Any]:
        """Return the prompt of a call and require that it is verified."""
        prompt = await self.fetch_json(f"/v1/sessions/{session}/calls/{call}/prompt")
        assert prompt["verified"], prompt
        return dict(prompt)

    def watch_turn(self, session: str, turn: int = 1) -> AbstractAsyncContextManager[Watched]:
        """Open the event stream of a turn."""
        port = self.http.base_url.port
        assert port is not None
        return open_stream(port, f"/v1/sessions/{session}/turns/{turn}/stream")


@asynccontextmanager
async def start_agent_service(folder: Path, model: str = MODEL) -> AsyncGenerator[AgentService]:
    """Run an agent service whose files are in `folder`."""
    backend, kinds = MemoryBackend(), folder / "blueprints"
    kinds.mkdir()
    async with (
        OpenAIServer() as provider,
        start_service(backend, "agents", folder, working=False, blueprints=(kinds,)) as stand,
    ):
        pricing = AttemptPricing(ModelPrices().load_table, ModelDialects().load_table)
        worker = build_worker(
            *(backend, stand.store, LitellmModel(), pricing),
            named=model,
            blueprints=(kinds,),
        )
        working = asyncio.create_task(run_worker(backend, stand.tenant, worker, stand.handled))
        try:
            with pytest.MonkeyPatch.context() as patched:
                patched.setenv("OPENAI_API_BASE", provider.url)
                patched.setenv("OPENAI_API_KEY", "sk-of-nobody")
                yield AgentService(
                    gateway=stand,
                    backend=backend,
                    provider=provider,
                    worker=worker,
                    shop=FakeToolServer(),
                    folder=kinds,
                )
        finally:
            await cancel_tasks(working)
