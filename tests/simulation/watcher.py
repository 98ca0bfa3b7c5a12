"""A watcher of one turn that disconnects and resumes by its cursor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field

from tests.faults.history import Heard
from tests.simulation.http import Answer, Frame, streamed
from tests.simulation.loop import SimulatedLoop
from tests.simulation.roles import TENANT, Gateway
from turnlog.services.gateway.streaming.turn_stream import open_turn_stream

ENDS = frozenset({"done", "failed", "cancelled", "redact"})


@dataclass(eq=False)
class Watcher:
    """Watches until the turn ends."""

    session: str
    turn: int
    loop: SimulatedLoop
    gateway: Callable[[], Gateway]
    text: str = ""
    cursor: str | None = None
    end: str | None = None
    refused: list[str] = field(default_factory=list[str])
    """Answers that a watcher with its own cursor must never get."""

    async def run(self) -> Heard:
        """Watch the turn and return what the watcher has at the end."""
        while self.end is None:
            await asyncio.sleep(self.loop.chance.random())
            flow = streamed(
                self.gateway(),
                lambda gateway: open_turn_stream(
                    gateway.desk, TENANT, self.session, self.turn, self.cursor
                ),
            )
            async with aclosing(flow) as frames:
                async for frame in frames:
                    if self._ends(frame) or self.loop.chance.random() < 0.05:
                        break
        return Heard(self.session, self.turn, self.text, self.end)

    def _ends(self, frame: Frame | Answer) -> bool:
        if isinstance(frame, Answer):
            if frame.status < 500:
                self.refused.append(f"{self.cursor}: {frame.status} {frame.body}")
                self.end = "refused"
            return True
        self.cursor, name, data = frame
        if name == "token":
            self.text += data["text"]
        elif name == "attempt-reset":
            self.text = ""
        self.end = name if name in ENDS else None
        return self.end is not None
