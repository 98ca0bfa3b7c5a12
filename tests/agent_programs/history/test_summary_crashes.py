"""A worker dies before or after every append of a turn that first summarises older ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from typing import Final, Literal

import pytest

from tests.agent_programs.history.test_summaries import build_ladder_blueprint, run_turns
from tests.agent_programs.turns.test_turn_crashes import WHEN, run_crashing_turn
from tests.support.sessions.puppet_model import PuppetModel
from turnlog.events.model.call_events import CallCompleted, ContextAssembled
from turnlog.events.model.memory_events import HistorySummarised, SummaryBegun
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.services.worker.model.model_types import (
    ModelDelta,
    ModelRequest,
)

APPENDS = 6
"""The number of appends of the turn in these tests."""


KINDS: Final[Mapping[str, tuple[int, Blueprint | None]]] = {
    "view": (3, None),
    "component": (3, build_ladder_blueprint("summarise", "drop_oldest_pairs", history=500)),
    "whole prompt": (4, build_ladder_blueprint("trim", "summarise", "drop_oldest_pairs")),
}
"""By what is too long, the turns before it is and the blueprint."""


class SummarisingModel(PuppetModel):
    """A model that summarises when the prompt asks for it, and replies otherwise."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """See `Model.stream`."""
        is_summary_request = request.messages[-1]["content"] == "Sum up what was said."
        self.scripts = [["They spoke of words." if is_summary_request else "Well."]]
        async for each in super().stream(request):
            yield each


@pytest.mark.parametrize("at", range(1, APPENDS + 1))
@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("kind", KINDS)
async def test_crash_at_any_append_summarises_once_and_completes_the_turn(
    kind: str, at: int, when: Literal["before", "after"]
) -> None:
    turns, blueprint = KINDS[kind]
    shop = await run_turns(turns, blueprint)
    assert await run_crashing_turn(shop, at, when, SummarisingModel)
    assert len(shop.list_events(SummaryBegun)) == len(shop.list_events(HistorySummarised)) == 1
    answered = Counter(each.call for each in shop.list_events(CallCompleted))
    assert answered == Counter(each.call for each in shop.list_events(ContextAssembled))
    before = [f"{turn}.1" for turn in range(1, turns + 1)]
    assert answered == Counter([*before, f"{turns + 1}.1", f"{turns + 1}.2"])
    assert len(shop.list_events(TurnCompleted)) == turns + 1


@pytest.mark.parametrize("kind", KINDS)
async def test_crash_points_cover_every_append(kind: str) -> None:
    shop = await run_turns(*KINDS[kind])
    assert not await run_crashing_turn(shop, APPENDS + 1, "before", SummarisingModel)
