"""A worker dies before or after every append of a turn that first summarises older ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from typing import Literal

import pytest

from tests.agent_programs.history.test_summaries import run_turns
from tests.agent_programs.turns.test_turn_crashes import WHEN, run_crashing_turn
from tests.support.sessions.puppet_model import PuppetModel
from turnlog.events.model.call_events import CallCompleted, ContextAssembled
from turnlog.events.model.memory_events import HistorySummarised, SummaryBegun
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.services.worker.model.model_types import FinishedAnswer, ModelRequest, TextDelta

APPENDS = 6
"""The number of appends of the turn in these tests."""


class SummarisingModel(PuppetModel):
    """A model that summarises when the prompt asks for it, and replies otherwise."""

    async def stream(
        self, request: ModelRequest
    ) -> AsyncGenerator[TextDelta | FinishedAnswer, None]:
        """See `Model.stream`."""
        is_summary_request = request.messages[-1]["content"] == "Sum up what was said."
        self.scripts = [["They spoke of words." if is_summary_request else "Well."]]
        async for each in super().stream(request):
            yield each


@pytest.mark.parametrize("at", range(1, APPENDS + 1))
@pytest.mark.parametrize("when", WHEN)
async def test_a_summary_is_made_once_and_the_turn_is_answered(
    at: int, when: Literal["before", "after"]
) -> None:
    shop = await run_turns(3)
    assert await run_crashing_turn(shop, at, when, SummarisingModel)
    assert len(shop.list_events(SummaryBegun)) == len(shop.list_events(HistorySummarised)) == 1
    answered = Counter(each.call for each in shop.list_events(CallCompleted))
    assert answered == Counter(each.call for each in shop.list_events(ContextAssembled))
    assert answered == Counter(["1.1", "2.1", "3.1", "4.1", "4.2"])
    assert len(shop.list_events(TurnCompleted)) == 4


async def test_those_are_all_the_appends_there_are() -> None:
    assert not await run_crashing_turn(await run_turns(3), APPENDS + 1, "before", SummarisingModel)
