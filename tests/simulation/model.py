"""A model whose words, pace and failures chance decides."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, get_args

from tests.simulation.kinds import FORBIDDEN, SIGNALS
from tests.simulation.loop import SimulatedLoop
from tests.simulation.weather import CLEARS, Weather
from turnlog.events.turn import Finish
from turnlog.projections.session.phasing import TRANSITION
from turnlog.projections.window.request import ChatMessage, Request
from turnlog.services.runtime.prices import PriceTable
from turnlog.services.worker.model.exchange import (
    Finished,
    ModelRequest,
    TextDelta,
    ToolCall,
    Usage,
)
from turnlog.services.worker.model.failures import FailureCode, ModelFailure

WORDS: Final = ("Yes. ", "no ", "it depends, ", "of course! ", "\u00fcber\U0001f600 ", "a\n")
CODES: Final[tuple[FailureCode, ...]] = get_args(FailureCode)


@dataclass
class SimulatedModel:
    """Answers the requests of one worker."""

    loop: SimulatedLoop
    weather: Weather
    asked: list[tuple[datetime, str]] = field(default_factory=list[tuple[datetime, str]])
    """When it was asked, and the digest of what it was asked."""
    said: list[str] = field(default_factory=list[str])
    """Texts it said to their end."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[TextDelta | Finished, None]:
        """See `Model.stream`."""
        chance = self.loop.chance
        self.asked.append((self.loop.clock(), _digest(request)))
        bad = self.loop.time() < CLEARS and chance.random() < self.weather.failing
        await asyncio.sleep(chance.random() * 2 * self.weather.pace)
        text = ""
        for _ in range(chance.randint(0 if bad else 1, 6)):
            slow = 4 if chance.random() < 0.2 else 0.5
            await asyncio.sleep(chance.random() * slow * self.weather.pace)
            piece = FORBIDDEN if chance.random() < 0.03 else chance.choice(WORDS)
            text += piece
            yield TextDelta(piece)
        if bad:
            await asyncio.sleep(chance.choice((0.0, 0.0, 90.0)))
            raise ModelFailure(chance.choice(CODES), retry_after=chance.choice((None, 3.0)))
        self.said.append(text)
        yield _end(chance, request)

    async def prices(self) -> PriceTable:
        """Give an empty price table, so that the flat guess applies."""
        return PriceTable("simulated", {})


def _end(chance: random.Random, request: ModelRequest) -> Finished:
    usage = Usage(40, 20) if chance.random() < 0.7 else None
    finish: Finish = "length" if chance.random() < 0.1 else "stop"
    signal = chance.choice((*SIGNALS, "nonsense"))
    asks = bool(request.tools) and chance.random() < 0.4
    tools = (ToolCall("t1", TRANSITION, f'{{"signal": "{signal}"}}'),) if asks else ()
    return Finished("tool_calls" if tools else finish, tools, usage, request.model, None)


def _digest(request: ModelRequest) -> str:
    said = tuple(ChatMessage(str(m["role"]), str(m["content"])) for m in request.messages)  # type: ignore[arg-type]
    asked = Request(request.model, said, request.tools, request.parameters)  # type: ignore[arg-type]
    return asked.digest
