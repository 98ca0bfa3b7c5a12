"""The agents' platform: HTTP in front, litellm behind it, and a model's server that plays a script.

All of it is one process, and nothing in it is a stand-in but the words of the model and the server
of tools, which is a shop in memory unless a test takes real ones. What a row of the requirements
asks for is shown here: a blueprint, the answers of the model by call, and then what was sent to it,
what is on the log, and what any route says. One platform serves the tests of a module, which say
`pytestmark = pytest.mark.asyncio(loop_scope="module")`; each opens sessions of its own, and every
call of these is proven when it ends.
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
    """Answer with a plan: each step's goal, and the tools it names."""
    named = [{"goal": goal, "tools": [*tools]} for goal, tools in steps]
    return says(json.dumps({"steps": named, **more}))


def takes(*wanted: tuple[str, dict[str, Any]]) -> Answer:
    """Answer by asking for tools, each by its name and its arguments."""
    calls = tuple((tool, json.dumps(given)) for tool, given in wanted)
    return Answer((), finish="tool_calls", tool_calls=calls)


def says(*tokens: str) -> Answer:
    """Answer with a text."""
    return Answer(tokens)


STEPS: tuple[Answer, ...] = (
    plans(("Find a hammer.", ["shop_look"]), ("Pay for it.", ["shop_pay"])),
    takes(("shop_look", {"what": "hammer"})),
    takes(("shop_pay", {"what": "hammer"})),
    says("It is ", "yours."),
)
"""A turn of two steps: calls n.1 to n.4."""


@dataclass
class Platform:
    """A service with agents, and both of its ends for a test to hold."""

    stand: Stand
    held: InMemory
    provider: OpenAIServer
    worker: TurnRunner
    """Its `servers` may be exchanged for real ones."""
    shop: Shop
    folder: Path
    """Where blueprints are, each in a folder of its name."""
    opened: list[str] = field(default_factory=list[str])
    """The sessions of this test."""

    def fresh(self) -> Platform:
        """Give the same platform to the next test, with nothing of the last one in its hands."""
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
        """Whoever asks the service."""
        return self.stand.http

    async def open(self, kind: Blueprint | None = None, **form: object) -> str:
        """Open a session of a kind; gives its id."""
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
        """Put a turn to a session that the model deals with like this; gives what became of it."""
        self.provider.will(*answers)
        path = f"/v1/sessions/{session}/turns?wait=60"
        answer = await self.http.post(path, json={"text": text} | form)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def turn(self, session: str, *answers: Behaviour, **form: Any) -> None:  # noqa: ANN401
        """Put a turn to a session and see it completed."""
        said = await self.ask(session, *answers, **form)
        assert said["status"] == "completed", said

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """What the model's server was sent, request by request."""
        return [exchange.body for exchange in self.provider.exchanges]

    def said(self, number: int) -> list[str]:
        """Give what a request said, message by message; requests are counted from 0."""
        return [str(each["content"]) for each in self.bodies[number]["messages"]]

    def offered(self) -> list[list[str]]:
        """Name the tools that each request offered."""
        asked = [body.get("tools", ()) for body in self.bodies]
        return [[tool["function"]["name"] for tool in tools] for tools in asked]

    async def recorded(self, session: str) -> Sequence[RecordedEvent]:
        """Give all events of a session so far."""
        log, tenant = self.held.log, self.stand.tenant
        last = await log.read_last_event(tenant, session, leader=True)
        return await log.read_range(tenant, session, None, last) if last else ()

    async def events(self, session: str, kind: type[Kind]) -> list[Kind]:
        """Give all events of a kind that a session has so far."""
        return [each.event for each in await self.recorded(session) if isinstance(each.event, kind)]

    async def names(self, session: str) -> list[str]:
        """Name the events of a session in order."""
        return [format_event_name(each.envelope.type) for each in await self.recorded(session)]

    async def get(self, path: str, **query: Any) -> Any:  # noqa: ANN401 - JSON of any shape
        """Get something that is there."""
        return await self.stand.get(path, **query)

    async def calls(self, session: str) -> list[dict[str, Any]]:
        """Give the calls of a session, once the rows know of its last event."""
        last = (await self.recorded(session))[-1].sequence
        path = f"/v1/sessions/{session}/calls"
        return list((await self.get(path, min_sequence=last))["calls"])

    async def prompt(self, session: str, call: str) -> dict[str, Any]:
        """Give the prompt of a call as an auditor reads it back."""
        prompt = await self.get(f"/v1/sessions/{session}/calls/{call}/prompt")
        assert prompt["verified"], prompt
        return dict(prompt)

    def watching(self, session: str, turn: int = 1) -> AbstractAsyncContextManager[Watched]:
        """Watch a turn, as an application in front does."""
        port = self.http.base_url.port
        assert port is not None
        return asking(port, f"/v1/sessions/{session}/turns/{turn}/stream")


@asynccontextmanager
async def platform_at(folder: Path) -> AsyncGenerator[Platform]:
    """Run a platform whose files are in a folder."""
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
