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
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from tests.agents.workshop import Shop, agent
from tests.parts.openai_behaviours import Answer, Behaviour
from tests.parts.openai_server import OpenAIServer
from tests.parts.reproduction import of_session
from tests.services.gateway.stand import InMemory, Stand, answering, ended, standing, worker_on
from tests.services.gateway.watching import Answer as Watched
from tests.services.gateway.watching import asking
from turnlog.events.envelope import RecordedEvent
from turnlog.events.registry import KnownEvent, format_event_name
from turnlog.projections.blueprint.loading.blueprint_source import BLUEPRINT_FILE
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, encode_blueprint
from turnlog.services.blueprints.model_prices import ShippedPrices
from turnlog.services.worker.model.litellm_model import LitellmModel
from turnlog.services.worker.turn_runner import TurnRunner

MODEL = "openai/heron"
Kind = TypeVar("Kind", bound=KnownEvent)


def plans(*steps: tuple[str, Sequence[str]], **more: object) -> Answer:
    """Return an answer that is a plan: the goal of each step and the tools it names."""
    named = [{"goal": goal, "tools": [*tools]} for goal, tools in steps]
    return says(json.dumps({"steps": named, **more}))


def takes(*wanted: tuple[str, dict[str, Any]]) -> Answer:
    """Return an answer that requests tool calls, each by tool name and arguments."""
    calls = tuple((tool, json.dumps(given)) for tool, given in wanted)
    return Answer((), finish="tool_calls", tool_calls=calls)


def says(*tokens: str) -> Answer:
    """Return an answer that is a text."""
    return Answer(tokens)


STEPS: tuple[Answer, ...] = (
    plans(("Find a hammer.", ["shop_look"]), ("Pay for it.", ["shop_pay"])),
    takes(("shop_look", {"what": "hammer"})),
    takes(("shop_pay", {"what": "hammer"})),
    says("It is ", "yours."),
)
"""The answers of a turn of two steps: calls n.1 to n.4."""


@dataclass
class Platform:
    """A running service with agents, with access to its log and to its model server."""

    stand: Stand
    held: InMemory
    provider: OpenAIServer
    worker: TurnRunner
    """Its `servers` may be exchanged for real ones."""
    shop: Shop
    folder: Path
    """The folder of the blueprints, each in a subfolder of its name."""
    opened: list[str] = field(default_factory=list[str])
    """The sessions of the current test."""

    def fresh(self) -> Platform:
        """Return the same service for the next test, without sessions and recorded requests."""
        self.provider.forget()
        self.worker.servers = shop = Shop()
        return replace(self, shop=shop, opened=[])

    async def unproven(self) -> list[str]:
        """Say what of this test's calls cannot be had again."""
        blobs = {digest: blob for (_, digest), blob in self.held.blobs.blobs.items()}
        found = [list(await self.recorded(session)) for session in self.opened]
        return [wrong for events in found for wrong in of_session(events, blobs)]

    @property
    def http(self) -> httpx.AsyncClient:
        """The HTTP client of the gateway."""
        return self.stand.http

    async def open(self, kind: Blueprint | None = None, **form: object) -> str:
        """Write a blueprint, open a session of it and return the session id."""
        kind = kind or agent()
        file = self.folder / kind.blueprint / BLUEPRINT_FILE
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(encode_blueprint(kind))
        session = await self.stand.open(kind.blueprint, **form)
        self.opened.append(session)
        return session

    async def ask(
        self, session: str, *answers: Behaviour, text: str = "Get me a hammer.", **form: object
    ) -> dict[str, Any]:
        """Submit a turn, let the model give these answers, and return the settled turn."""
        self.provider.will(*answers)
        path = f"/v1/sessions/{session}/turns?wait=60"
        answer = await self.http.post(path, json={"text": text} | form)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def turn(self, session: str, *answers: Behaviour, **form: Any) -> None:  # noqa: ANN401
        """Submit a turn and require that it completes."""
        said = await self.ask(session, *answers, **form)
        assert said["status"] == "completed", said

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The request bodies that the model server received, in order."""
        return [exchange.body for exchange in self.provider.exchanges]

    def said(self, number: int) -> list[str]:
        """Return the message contents of one request; requests count from 0."""
        return [str(each["content"]) for each in self.bodies[number]["messages"]]

    def offered(self) -> list[list[str]]:
        """Return the names of the tools in each request."""
        asked = [body.get("tools", ()) for body in self.bodies]
        return [[tool["function"]["name"] for tool in tools] for tools in asked]

    async def recorded(self, session: str) -> Sequence[RecordedEvent]:
        """Give all events of a session so far."""
        log, tenant = self.held.log, self.stand.tenant
        last = await log.read_last_event(tenant, session, leader=True)
        return await log.read_range(tenant, session, None, last) if last else ()

    async def events(self, session: str, kind: type[Kind]) -> list[Kind]:
        return [each.event for each in await self.recorded(session) if isinstance(each.event, kind)]

    async def names(self, session: str) -> list[str]:
        """Name the events of a session in order."""
        return [format_event_name(each.envelope.type) for each in await self.recorded(session)]

    async def get(self, path: str, **query: Any) -> Any:  # noqa: ANN401 - JSON of any shape
        return await self.stand.get(path, **query)

    async def calls(self, session: str) -> list[dict[str, Any]]:
        """Return the calls of a session, once the read models hold its last event."""
        last = (await self.recorded(session))[-1].sequence
        path = f"/v1/sessions/{session}/calls"
        return list((await self.get(path, min_sequence=last))["calls"])

    async def prompt(self, session: str, call: str) -> dict[str, Any]:
        """Return the prompt of a call and require that it is verified."""
        prompt = await self.get(f"/v1/sessions/{session}/calls/{call}/prompt")
        assert prompt["verified"], prompt
        return dict(prompt)

    def watching(self, session: str, turn: int = 1) -> AbstractAsyncContextManager[Watched]:
        """Open the event stream of a turn."""
        port = self.http.base_url.port
        assert port is not None
        return asking(port, f"/v1/sessions/{session}/turns/{turn}/stream")


@asynccontextmanager
async def platform_at(folder: Path) -> AsyncGenerator[Platform]:
    """Run an agent service whose files are in `folder`."""
    held, kinds = InMemory(), folder / "blueprints"
    kinds.mkdir()
    async with (
        OpenAIServer() as provider,
        standing(held, "agents", folder, working=False, blueprints=(kinds,)) as stand,
    ):
        worker = worker_on(
            *(held, stand.store, LitellmModel(), ShippedPrices().load_table),
            named=MODEL,
            blueprints=(kinds,),
        )
        working = asyncio.create_task(answering(held, stand.tenant, worker))
        try:
            with pytest.MonkeyPatch.context() as patched:
                patched.setenv("OPENAI_API_BASE", provider.url)
                patched.setenv("OPENAI_API_KEY", "sk-of-nobody")
                yield Platform(stand, held, provider, worker, Shop(), kinds)
        finally:
            await ended(working)
