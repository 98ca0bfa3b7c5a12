"""A watcher of one turn that disconnects and resumes by its cursor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from tests.faults.clients.client_history import HeardReply
from tests.simulation.network.simulated_http import SimulatedAnswer, StreamFrame, stream_frames
from tests.simulation.processes.simulated_loop import SimulatedLoop
from tests.simulation.processes.simulated_roles import TENANT, SimulatedGateway

END_EVENTS = frozenset({"done", "failed", "cancelled", "redact"})


@dataclass(eq=False, kw_only=True)
class SimulatedWatcher:
    """Watches until the turn ends."""

    session: str
    turn: int
    loop: SimulatedLoop
    gateway: Callable[[], SimulatedGateway]
    text: str = ""
    cursor: str | None = None
    end: str | None = None
    refused: list[str] = field(default_factory=list[str])
    """Answers that a watcher with its own cursor must never get."""

    async def watch_turn(self) -> HeardReply:
        """Watch the turn and return what the watcher has at the end."""
        while self.end is None:
            await asyncio.sleep(self.loop.chance.random())
            flow = stream_frames(
                self.gateway(),
                lambda gateway: gateway.turns.open_stream(
                    TENANT, self.session, self.turn, self.cursor
                ),
            )
            async with aclosing(flow) as frames:
                async for frame in frames:
                    if self._handle_frame(frame) or self.loop.chance.random() < 0.05:
                        break
        return HeardReply(self.session, self.turn, self.text, self.end)

    def _handle_frame(self, frame: StreamFrame | SimulatedAnswer) -> bool:
        if isinstance(frame, SimulatedAnswer):
            if frame.status < 500:
                self.refused.append(f"{self.cursor}: {frame.status} {frame.body}")
                self.end = "refused"
            return True
        self.cursor, name, data = frame
        if name == "token":
            self.text += data["text"]
        elif name == "attempt-reset":
            self.text = ""
        self.end = name if name in END_EVENTS else None
        return self.end is not None
