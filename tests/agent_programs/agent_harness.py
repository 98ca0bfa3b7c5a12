"""A session harness with a fake tool server, for turns that plan, call tools and answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import JsonValue

from tests.support.sessions.event_parts import find_part
from tests.support.sessions.puppet_model import PuppetModel, ScriptStep
from tests.support.sessions.session_harness import TENANT, TESTER, SessionHarness, build_delivery
from turnlog.events.envelope import RecordedEvent
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, compute_history_reach
from turnlog.projections.blueprint.schema.tool_specs import ServerSpec
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.commands import OpenSession
from turnlog.projections.tools.tool_catalog import ToolOffer
from turnlog.services.media.incoming_media import IncomingMedia
from turnlog.services.worker.model.model_types import (
    FinishedAnswer,
    ModelDelta,
    ModelRequest,
    ModelToolCall,
    ModelUsage,
    ReasoningDelta,
)
from turnlog.services.worker.tools.tool_server_types import ToolAnswer
from turnlog.services.worker.turn_delivery import DeliverySettled

USAGE = ModelUsage(10, 5)


def build_agent_blueprint(**changes: Any) -> Blueprint:  # noqa: ANN401 - pieces of a blueprint
    """Return a small blueprint that plans and calls tools."""
    return Blueprint.model_validate(
        {
            "blueprint": "agent",
            "version": 1,
            "layers": {
                "rules": {"text": "Plan first.", "keep": "always"},
                "tools": {"tools": "all", "component": "tools_context"},
                "goal": {"step": "goal", "component": "step"},
                "results": {"step": "results", "component": "results"},
            },
            "calls": {
                "plan": {
                    "messages": [
                        {"system": ["rules", "tools"]},
                        {"history": "recent"},
                        {"user": ["input"]},
                    ]
                },
                "tactic": {
                    "messages": [{"system": ["goal", "results"]}, {"user": ["input"]}],
                    "tools": ["for_step"],
                },
                "synthesise": {
                    "messages": [
                        {"system": ["rules", "results"]},
                        {"history": "recent"},
                        {"user": ["input"]},
                    ]
                },
            },
            "history": {"recent": {}},
            "tools": {"servers": {"shop": {"command": ["shop"], "idempotent": ["look"]}}},
            "policies": {"retries": {"base_seconds": 0}},
            "profiles": {
                "agent": {
                    "default": True,
                    "program": "tools",
                    "plan": "plan",
                    "act": "tactic",
                    "call": "synthesise",
                }
            },
            **changes,
        }
    )


LOOP_PROFILE = {"default": True, "program": "loop", "call": "converse"}


def build_loop_blueprint(**changes: Any) -> Blueprint:  # noqa: ANN401 - pieces of a blueprint
    """Return a small blueprint whose one call is repeated until it answers."""
    messages = [{"system": ["rules"]}, {"history": "recent"}, {"user": ["input"]}]
    return build_agent_blueprint(
        **{
            "layers": {"rules": {"text": "Help.", "keep": "always"}},
            "calls": {"converse": {"messages": messages, "tools": ["all"]}},
            "profiles": {"agent": LOOP_PROFILE},
            **changes,
        }
    )


async def do_nothing() -> None:
    """Yield once to the event loop."""
    await asyncio.sleep(0)


@dataclass(kw_only=True)
class FakeToolServer:
    """A tool server with an idempotent tool, `look`, and one that is not, `pay`."""

    tool_calls: list[tuple[str, Mapping[str, JsonValue]]] = field(
        default_factory=list[tuple[str, Mapping[str, JsonValue]]]
    )
    prompt_requests: list[tuple[str, Mapping[str, JsonValue]]] = field(
        default_factory=list[tuple[str, Mapping[str, JsonValue]]]
    )
    result_text: str = "3 in stock"
    results: list[str] = field(default_factory=list[str])
    """The next results, in order, before `result_text`."""
    media: tuple[IncomingMedia, ...] = ()
    """What it returns beside the text of each result."""
    failing_tools: list[str] = field(default_factory=list[str])
    """Tools that fail, each as often as it is named."""
    extra_offers: tuple[ToolOffer, ...] = ()
    """What it offers beside the two."""
    during_call: Callable[[], Awaitable[object]] = do_nothing
    """Awaited while a tool runs."""

    async def list_offers(self, server: str, spec: ServerSpec) -> tuple[ToolOffer, ...]:
        """See `ToolServers.offers`."""
        del server, spec
        schema: dict[str, JsonValue] = {
            "type": "object",
            "properties": {"what": {"type": "string"}},
        }
        look = ToolOffer(tool="look", description="Looks for a thing.", schema=schema)
        pay = ToolOffer(tool="pay", description="Pays for it.", schema=schema)
        return (look, pay, *self.extra_offers)

    async def call_tool(
        self, server: str, spec: ServerSpec, tool: str, arguments: Mapping[str, JsonValue]
    ) -> ToolAnswer:
        """See `ToolServers.ask`."""
        del server, spec
        self.tool_calls.append((tool, arguments))
        await self.during_call()
        if tool not in self.failing_tools:
            text = self.results.pop(0) if self.results else self.result_text
            return ToolAnswer(text, media=self.media)
        self.failing_tools.remove(tool)
        return ToolAnswer("the shelf is locked", failed=True)

    async def get_prompt(
        self, server: str, spec: ServerSpec, prompt: str, arguments: Mapping[str, JsonValue]
    ) -> ToolAnswer:
        """See `ToolServers.get_prompt`."""
        del server, spec
        self.prompt_requests.append((prompt, arguments))
        await self.during_call()
        return ToolAnswer(f"Say it in a {arguments.get('tone', 'plain')} tone.")

    async def close(self) -> None:
        pass


def build_plan_script(*steps: tuple[str, Sequence[str]]) -> list[ScriptStep]:
    """Return a script in which the model plans these steps."""
    return [json.dumps({"steps": [{"goal": goal, "tools": [*tools]} for goal, tools in steps]})]


def build_tool_script(*requests: tuple[str, str], named: str = "t{}") -> list[ScriptStep]:
    """Return a script in which the model requests tools, each by name and arguments."""
    numbered = enumerate(requests, 1)
    calls = tuple(
        ModelToolCall(named.format(n), tool, arguments) for n, (tool, arguments) in numbered
    )
    return [
        FinishedAnswer(
            finish_reason="tool_calls",
            tool_calls=calls,
            usage=USAGE,
            model="puppet/one",
            response_id=None,
        )
    ]


TWO_STEP_SCRIPTS: tuple[list[ScriptStep], ...] = (
    build_plan_script(("Find a hammer.", ["shop_look"]), ("Pay for it.", ["shop_pay"])),
    build_tool_script(("shop_look", '{"what": "hammer"}')),
    build_tool_script(("shop_pay", '{"what": "hammer"}')),
    ["It is ", "yours."],
)
"""The scripts of a turn of two steps."""


class RoundKeyedModel(PuppetModel):
    """A model that looks, pays and replies, by the number of tool results that it is sent.

    It reasons before each answer.

    So a call that is made again after a crash gets the same answer.
    """

    server: ClassVar = "shop"
    """The server whose tools it calls."""
    arguments_of_look: ClassVar = '{"what": "hammer"}'

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """See `Model.stream`."""
        rounds = (
            build_tool_script((f"{self.server}_look", self.arguments_of_look)),
            build_tool_script((f"{self.server}_pay", '{"what": "hammer"}')),
            ["It is ", "yours."],
        )
        results = [each for each in request.messages if each["role"] == "tool"]
        self.scripts = [rounds[len(results)]]
        thought = f"Round {len(results) + 1}."
        yield ReasoningDelta({"reasoning_content": thought}, thought)
        async for each in super().stream(request):
            yield each


@dataclass
class AgentHarness:
    """A session harness and its fake tool server."""

    shop: FakeToolServer = field(default_factory=FakeToolServer)
    house: SessionHarness = field(default_factory=SessionHarness)
    kind: Blueprint = field(default_factory=build_agent_blueprint)

    def __post_init__(self) -> None:
        self.house.servers = self.shop

    async def open_session(self) -> AgentHarness:
        """Open the session."""
        ref = await self.house.blueprints.store_blueprint(TENANT, self.kind)
        graph = SessionMaterial(blueprint=self.kind).phases
        command = OpenSession(
            blueprint=ref,
            profile=self.kind.default_profile,
            reach=compute_history_reach(self.kind),
            phases=graph,
        )
        await self.house.sessions.handle(TENANT, "s", command, TESTER)
        return self

    async def run_turn(
        self, *scripts: list[ScriptStep], text: str = "Get me a hammer."
    ) -> RecordedEvent:
        """Put something to the session and have it answered by these scripts."""
        self.house.model.scripts = [*scripts]
        submitted = await self.house.submit_turn(text)
        assert await self.house.run_turn(submitted) == DeliverySettled()
        return submitted

    async def take_over_turn(self, submitted: RecordedEvent) -> None:
        """Let another worker have a turn whose worker has died; nothing is left on TOKENS."""
        self.house.tokens.clear_all()
        again = build_delivery(submitted, redelivered=True)
        assert await self.house.build_worker("w2").run_turn(again) == DeliverySettled()

    def get_request_texts(self, number: int) -> list[str]:
        """Return the message contents of one request; requests count from 0."""
        return [str(each["content"]) for each in self.house.model.requests[number].messages]

    def list_offered_tools(self) -> list[list[str]]:
        """Return the names of the tools in each request."""
        tool_lists: list[Any] = [request.tools for request in self.house.model.requests]
        return [[tool["function"]["name"] for tool in tools] for tools in tool_lists]

    def list_events(self, kind: type[Any]) -> list[Any]:
        events = self.house.list_events()
        return [part for each in events if (part := find_part(each.event, kind))]


async def open_loop(shop: FakeToolServer | None = None, **changes: Any) -> AgentHarness:  # noqa: ANN401
    """Open a session of the blueprint of a loop."""
    harness = AgentHarness(shop or FakeToolServer(), kind=build_loop_blueprint(**changes))
    return await harness.open_session()
