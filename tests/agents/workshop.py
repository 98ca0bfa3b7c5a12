"""A session harness with a fake tool server, for turns that plan, call tools and answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from tests.parts.house import BY, TENANT, House, delivery
from tests.parts.puppet import Line
from turnlog.events.envelope import Recorded
from turnlog.projections.blueprint.schema import Blueprint, reach
from turnlog.projections.blueprint.tools import ServerSpec
from turnlog.projections.session.commands import OpenSession
from turnlog.projections.tools.offers import Offer
from turnlog.projections.window.material import Material
from turnlog.services.worker.delivery import Settled
from turnlog.services.worker.model.exchange import Finished, ToolCall, Usage
from turnlog.services.worker.tools.exchange import Answered

USAGE = Usage(10, 5)


def agent(**changes: Any) -> Blueprint:  # noqa: ANN401 - pieces of a blueprint
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


async def nothing() -> None:
    """Yield once to the event loop."""
    await asyncio.sleep(0)


@dataclass
class Shop:
    """A tool server with an idempotent tool, `look`, and one that is not, `pay`."""

    asked: list[tuple[str, Mapping[str, JsonValue]]] = field(
        default_factory=list[tuple[str, Mapping[str, JsonValue]]]
    )
    gives: str = "3 in stock"
    fails: list[str] = field(default_factory=list[str])
    """Tools that fail; each call removes one entry."""
    more: tuple[Offer, ...] = ()
    """Tools that the server offers besides `look` and `pay`."""
    meanwhile: Callable[[], Awaitable[object]] = nothing
    """Awaited while a tool runs."""

    async def offers(self, server: str, spec: ServerSpec) -> tuple[Offer, ...]:
        del server, spec
        schema: dict[str, JsonValue] = {
            "type": "object",
            "properties": {"what": {"type": "string"}},
        }
        look, pay = (("look", "Looks for a thing."), ("pay", "Pays for it."))
        return (Offer(*look, schema), Offer(*pay, schema), *self.more)

    async def ask(
        self, server: str, spec: ServerSpec, tool: str, arguments: Mapping[str, JsonValue]
    ) -> Answered:
        del server, spec
        self.asked.append((tool, arguments))
        await self.meanwhile()
        if tool not in self.fails:
            return Answered(self.gives)
        self.fails.remove(tool)
        return Answered("the shelf is locked", failed=True)

    async def close(self) -> None:
        pass


def planning(*steps: tuple[str, Sequence[str]]) -> list[Line]:
    """Return a script in which the model plans these steps."""
    return [json.dumps({"steps": [{"goal": goal, "tools": [*tools]} for goal, tools in steps]})]


def taking(*wanted: tuple[str, str], named: str = "t{}") -> list[Line]:
    """Return a script in which the model requests tools, each by name and arguments."""
    numbered = enumerate(wanted, 1)
    calls = tuple(ToolCall(named.format(n), tool, given) for n, (tool, given) in numbered)
    return [Finished("tool_calls", calls, USAGE, "puppet/one", None)]


TURN: tuple[list[Line], ...] = (
    planning(("Find a hammer.", ["shop_look"]), ("Pay for it.", ["shop_pay"])),
    taking(("shop_look", '{"what": "hammer"}')),
    taking(("shop_pay", '{"what": "hammer"}')),
    ["It is ", "yours."],
)
"""The scripts of a turn of two steps."""


@dataclass
class Workshop:
    """A session harness and its fake tool server."""

    shop: Shop = field(default_factory=Shop)
    house: House = field(default_factory=House)
    kind: Blueprint = field(default_factory=agent)

    def __post_init__(self) -> None:
        self.house.servers = self.shop

    async def opened(self) -> Workshop:
        ref = await self.house.blueprints.pin(TENANT, self.kind)
        graph = Material(self.kind).phases
        command = OpenSession(ref, self.kind.default_profile, reach(self.kind), phases=graph)
        await self.house.sessions.act(TENANT, "s", command, BY)
        return self

    async def turn(self, *scripts: list[Line], text: str = "Get me a hammer.") -> Recorded:
        """Submit a turn, let the model follow these scripts, and require that it settles."""
        self.house.model.scripts = [*scripts]
        submitted = await self.house.submit(text)
        assert await self.house.answer(submitted) == Settled()
        return submitted

    async def taken_over(self, submitted: Recorded) -> None:
        """Let a second worker take a turn whose worker died; the token stream is empty."""
        self.house.tokens.forget()
        again = delivery(submitted, redelivered=True)
        assert await self.house.worker("w2").answer(again) == Settled()

    def said(self, number: int) -> list[str]:
        """Return the message contents of one request; requests count from 0."""
        return [str(each["content"]) for each in self.house.model.requests[number].messages]

    def offered(self) -> list[list[str]]:
        """Return the names of the tools in each request."""
        asked: list[Any] = [request.tools for request in self.house.model.requests]
        return [[tool["function"]["name"] for tool in tools] for tools in asked]

    def events(self, kind: type) -> list[Any]:
        return [each.event for each in self.house.events() if isinstance(each.event, kind)]
