"""A fake model that plays the scripts of a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field

from turnlog.events.model.turn_events import FinishReason
from turnlog.services.worker.model.model_types import (
    FinishedAnswer,
    MediaDelta,
    ModelDelta,
    ModelFailure,
    ModelRequest,
    ModelUsage,
    ReasoningDelta,
    TextDelta,
)

ScriptStep = (
    str
    | ReasoningDelta
    | MediaDelta
    | asyncio.Event
    | ModelFailure
    | FinishedAnswer
    | Callable[[], None]
)
"""A piece of text or reasoning, a picture, something to wait for, a failure, an end of its own, or
a call.
"""


def build_finish(
    *, finish: FinishReason = "stop", usage: ModelUsage | None = None
) -> FinishedAnswer:
    """Give the end of an answer."""
    return FinishedAnswer(
        finish_reason=finish,
        tool_calls=(),
        usage=usage or ModelUsage(10, 5),
        model="puppet/one",
        response_id=None,
    )


@dataclass
class PuppetModel:
    """Plays one script for each request, in order; without a script it answers `ok`."""

    scripts: list[Sequence[ScriptStep]] = field(default_factory=list[Sequence[ScriptStep]])
    end: FinishedAnswer = field(default_factory=build_finish)
    requests: list[ModelRequest] = field(default_factory=list[ModelRequest])
    closed_count: int = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """See `Model.stream`."""
        self.requests.append(request)
        script = self.scripts.pop(0) if self.scripts else ["ok"]
        try:
            for line in script:
                match line:
                    case str():
                        yield TextDelta(line)
                    case ReasoningDelta() | MediaDelta():
                        yield line
                    case asyncio.Event():
                        await line.wait()
                    case ModelFailure():
                        raise line
                    case FinishedAnswer():
                        yield line
                        return
                    case _:
                        line()
            yield self.end
        finally:
            self.closed_count += 1
