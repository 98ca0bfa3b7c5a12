"""A fake tool server that records its runs; the seed decides answers, pace and failures."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from tests.agent_programs.agent_harness import FakeToolServer
from tests.simulation.fault_profiles import FAULTS_END, FaultProfile
from tests.simulation.processes.simulated_loop import SimulatedLoop
from tests.simulation.processes.simulated_media import draw_media
from turnlog.projections.blueprint.schema.tool_specs import ServerSpec
from turnlog.projections.tools.tool_catalog import ToolOffer
from turnlog.services.media.incoming_media import IncomingMedia
from turnlog.services.worker.tools.tool_server_types import (
    ServerFailureCode,
    ToolAnswer,
    ToolServerFailure,
)


@dataclass
class SimulatedToolServer:
    """The tools of one worker; see `ToolServers`."""

    loop: SimulatedLoop
    fault_profile: FaultProfile
    has_media: bool
    """Whether results have pictures."""
    runs: list[tuple[str, JsonValue]] = field(default_factory=list[tuple[str, JsonValue]])
    """Each tool that ran, with its order number."""

    async def list_offers(self, server: str, spec: ServerSpec) -> tuple[ToolOffer, ...]:
        """See `ToolServers.offers`."""
        await self._simulate_work("tools_unreachable")
        return await FakeToolServer().list_offers(server, spec)

    async def call_tool(
        self, server: str, spec: ServerSpec, tool: str, arguments: Mapping[str, JsonValue]
    ) -> ToolAnswer:
        """See `ToolServers.ask`."""
        del server, spec
        self.runs.append((tool, arguments.get("order")))
        await self._simulate_work("tools_failed")
        chance = self.loop.chance
        text, failed = f"{chance.randint(0, 9)} in stock", chance.random() < 0.2
        media = self._draw_pictures() if self.has_media else ()
        return ToolAnswer(text, failed=failed, media=media)

    def _draw_pictures(self) -> tuple[IncomingMedia, ...]:
        chance = self.loop.chance
        drawn = [draw_media(chance, "image") for _ in range(chance.choice((0, 0, 1, 2)))]
        return tuple(IncomingMedia(each.data, each.media_type) for each in drawn)

    async def get_prompt(
        self, server: str, spec: ServerSpec, prompt: str, arguments: Mapping[str, JsonValue]
    ) -> ToolAnswer:
        """See `ToolServers.get_prompt`; its tools are all that it offers."""
        raise NotImplementedError

    async def close(self) -> None:
        """See `ToolServers.close`."""

    async def _simulate_work(self, code: ServerFailureCode) -> None:
        chance = self.loop.chance
        slow = 40 if chance.random() < 0.1 else 4
        await asyncio.sleep(chance.random() * slow * self.fault_profile.pace)
        if self.loop.time() < FAULTS_END and chance.random() < self.fault_profile.failing:
            raise ToolServerFailure(code, "it went away")
