"""A fake tool server whose answers, pace and failures the seed decides, and that records its runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from tests.agents.workshop import Shop
from tests.simulation.loop import SimulatedLoop
from tests.simulation.weather import CLEARS, Weather
from turnlog.projections.blueprint.schema.tool_specs import ServerSpec
from turnlog.projections.tools.tool_catalog import ToolOffer
from turnlog.services.worker.tools.tool_servers import (
    ServerFailureCode,
    ToolAnswer,
    ToolServerFailure,
)


@dataclass
class SimulatedShop:
    """The tools of one worker; see `ToolServers`."""

    loop: SimulatedLoop
    weather: Weather
    done: list[tuple[str, JsonValue]] = field(default_factory=list[tuple[str, JsonValue]])
    """Each tool that ran, with its order number."""

    async def list_offers(self, server: str, spec: ServerSpec) -> tuple[ToolOffer, ...]:
        """See `ToolServers.offers`."""
        await self._takes_time("tools_unreachable")
        return await Shop().list_offers(server, spec)

    async def call_tool(
        self, server: str, spec: ServerSpec, tool: str, arguments: Mapping[str, JsonValue]
    ) -> ToolAnswer:
        """See `ToolServers.ask`."""
        del server, spec
        self.done.append((tool, arguments.get("order")))
        await self._takes_time("tools_failed")
        chance = self.loop.chance
        return ToolAnswer(f"{chance.randint(0, 9)} in stock", failed=chance.random() < 0.2)

    async def close(self) -> None:
        """See `ToolServers.close`."""

    async def _takes_time(self, code: ServerFailureCode) -> None:
        chance = self.loop.chance
        slow = 40 if chance.random() < 0.1 else 4
        await asyncio.sleep(chance.random() * slow * self.weather.pace)
        if self.loop.time() < CLEARS and chance.random() < self.weather.failing:
            raise ToolServerFailure(code, "it went away")
