"""A worker dies before or after every append of a turn of the `loop` program."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from typing import Literal

import pytest

from tests.agent_programs.agent_harness import AgentHarness, build_tool_script, open_loop
from tests.agent_programs.turns.test_turn_crashes import WHEN, run_crashing_turn
from tests.support.sessions.puppet_model import PuppetModel
from turnlog.events.model.call_events import CallCompleted, ContextAssembled
from turnlog.events.model.tool_events import ToolCalled, ToolReturned
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.services.worker.model.model_types import FinishedAnswer, ModelRequest, TextDelta

APPENDS = 12
"""The number of appends of the turn in these tests."""

_SCRIPTS = (
    build_tool_script(("shop_look", '{"what": "hammer"}')),
    build_tool_script(("shop_pay", '{"what": "hammer"}')),
    ["It is ", "yours."],
)


class RoundKeyedModel(PuppetModel):
    """A model that answers by the number of results that it is sent."""

    async def stream(
        self, request: ModelRequest
    ) -> AsyncGenerator[TextDelta | FinishedAnswer, None]:
        """See `Model.stream`."""
        results = [each for each in request.messages if each["role"] == "tool"]
        self.scripts = [_SCRIPTS[len(results)]]
        async for each in super().stream(request):
            yield each


async def crash_loop(at: int, when: Literal["before", "after"]) -> tuple[AgentHarness, bool]:
    shop = await open_loop()
    return shop, await run_crashing_turn(shop, at, when, RoundKeyedModel)


@pytest.mark.parametrize("at", range(1, APPENDS + 1))
@pytest.mark.parametrize("when", WHEN)
async def test_a_loop_goes_on_where_the_log_ends(at: int, when: Literal["before", "after"]) -> None:
    shop, died = await crash_loop(at, when)
    assert died
    answered = Counter(each.call for each in shop.list_events(CallCompleted))
    assert set(answered.values()) == {1}
    assert len(shop.list_events(ContextAssembled)) == len(answered) == 3
    assert len(shop.list_events(TurnCompleted)) == 1
    assert [tool for tool, _ in shop.shop.tool_calls].count("pay") <= 1
    came_back = Counter((each.call, each.id) for each in shop.list_events(ToolReturned))
    assert came_back == Counter((each.call, each.id) for each in shop.list_events(ToolCalled))
    assert set(came_back.values()) == {1}


async def test_those_are_all_the_appends_of_a_loop() -> None:
    _, died = await crash_loop(APPENDS + 1, "before")
    assert not died


async def test_a_payment_that_nobody_saw_end_is_told_to_the_model_as_lost() -> None:
    outcomes = set[str]()
    for at in range(1, APPENDS + 1):
        shop, _ = await crash_loop(at, "after")
        paid = [each for each in shop.list_events(ToolReturned) if each.tool == "shop_pay"]
        outcomes |= {each.outcome for each in paid}
        if any(each.outcome == "lost" for each in paid):
            assert "lost" in str(shop.house.model.requests[-1].messages[-1]["content"])
    assert outcomes == {"answered", "lost"}
