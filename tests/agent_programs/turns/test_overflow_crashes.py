"""A worker dies before or after every append of a turn whose prompt its provider refuses."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Literal

import pytest

from tests.agent_programs.agent_harness import AgentHarness
from tests.agent_programs.history.test_summaries import build_ladder_blueprint, run_turns
from tests.agent_programs.turns.test_turn_crashes import WHEN, run_crashing_turn
from tests.support.servers.model_window import count_model_tokens
from tests.support.sessions.puppet_model import PuppetModel
from turnlog.events.model.call_events import (
    AttemptEnded,
    CallCompleted,
    ContextAssembled,
    ContextOverflow,
)
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.services.worker.model.model_types import (
    ModelDelta,
    ModelFailure,
    ModelRequest,
)

APPENDS = 5
"""The number of appends of the turn in these tests."""

TURNS = 2
"""The number of turns before it."""

LIMIT = 100
"""The tokens that the model takes: fewer than the three turns have."""


class NarrowModel(PuppetModel):
    """A model that refuses a prompt of more than `LIMIT` tokens."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """See `Model.stream`."""
        tokens = sum(count_model_tokens(str(each["content"])) for each in request.messages)
        overflow = ContextOverflow(tokens=tokens, limit=LIMIT)
        refusal = ModelFailure("context_overflow", "HTTP 400", overflow=overflow)
        self.scripts = [[refusal if tokens > LIMIT else "Well."]]
        async for each in super().stream(request):
            yield each


async def crash_overflow(at: int, when: Literal["before", "after"]) -> tuple[AgentHarness, bool]:
    blueprint = build_ladder_blueprint("drop_oldest_pairs", history=5_000)
    shop = await run_turns(TURNS, blueprint)
    return shop, await run_crashing_turn(shop, at, when, NarrowModel)


@pytest.mark.parametrize("at", range(1, APPENDS + 1))
@pytest.mark.parametrize("when", WHEN)
async def test_crash_at_any_append_shortens_the_prompt_once_and_completes_the_turn(
    at: int, when: Literal["before", "after"]
) -> None:
    shop, died = await crash_overflow(at, when)
    assert died
    assert len(shop.list_events(TurnCompleted)) == len(shop.list_events(CallCompleted)) == TURNS + 1
    *_, before, after = shop.list_events(ContextAssembled)
    assert (before.call, after.call) == ("3.1", "3.2")
    assert (after.supersedes, after.manifest.lowered_by) == ("3.1", "3.1")
    assert after.manifest.tokens <= LIMIT
    faults = [each.fault for each in shop.list_events(AttemptEnded) if each.fault]
    assert len([each for each in faults if each.code == "context_overflow"]) <= 2


async def test_crash_points_cover_every_append_of_an_overflow() -> None:
    _, died = await crash_overflow(APPENDS + 1, "before")
    assert not died
