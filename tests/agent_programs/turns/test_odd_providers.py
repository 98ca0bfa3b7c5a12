"""A provider that lies about tokens, or is odd, may spoil a turn, but ends no session."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from tests.agent_programs.agent_harness import AgentHarness
from tests.agent_programs.history.test_summaries import build_ladder_blueprint, run_numbered_turn
from tests.support.servers.model_window import count_model_tokens
from tests.support.sessions.puppet_model import PuppetModel, build_finish
from turnlog.events.model.call_events import ContextAssembled, ContextOverflow
from turnlog.events.model.turn_events import TurnCompleted, TurnFailed
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.services.worker.model.model_types import (
    ModelDelta,
    ModelFailure,
    ModelRequest,
    ModelUsage,
)


@dataclass
class MiscountingModel(PuppetModel):
    """A model whose server reports many times the tokens of each prompt."""

    times: float = 25

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta, None]:
        """See `Model.stream`."""
        tokens = sum(count_model_tokens(str(each["content"])) for each in request.messages)
        self.end = build_finish(usage=ModelUsage(round(tokens * self.times), 5))
        async for each in super().stream(request):
            yield each


def build_noted_blueprint() -> Blueprint:
    """Return a blueprint whose fixed layers have about a tenth of its budget."""
    plain = build_ladder_blueprint("drop_oldest_pairs")
    notes = {**plain.layers}
    notes["notes"] = notes["notes"].model_copy(update={"text": "A note. " * 40})
    return plain.model_copy(update={"layers": notes})


async def open_odd_session(model: PuppetModel) -> AgentHarness:
    shop = AgentHarness(kind=build_noted_blueprint())
    shop.house.model = model
    return await shop.open_session()


async def test_factor_that_leaves_no_room_for_fixed_layers_is_left_out() -> None:
    model = MiscountingModel()
    shop = await open_odd_session(model)
    for number in (1, 2, 3):
        await run_numbered_turn(shop, number)
    measured = (await shop.house.load_state()).corrections["reply"][model.requests[0].model]
    assert measured.factor > 5
    model.times = 4
    await run_numbered_turn(shop, 4)
    assert len(shop.list_events(TurnCompleted)) == 4
    counters = [each.manifest.counter for each in shop.list_events(ContextAssembled)]
    assert {each.factor for each in counters} == {1.0}
    assert {each.measured_in for each in counters} == {None}
    corrected = (await shop.house.load_state()).corrections["reply"][model.requests[0].model]
    assert corrected.factor < 2


async def test_limit_under_which_nothing_fits_ends_one_turn_and_no_session() -> None:
    shop = await open_odd_session(MiscountingModel(times=1))
    await run_numbered_turn(shop, 1)
    refusal = ModelFailure("context_overflow", "HTTP 400", overflow=ContextOverflow(limit=20))
    await run_numbered_turn(shop, 2, [refusal])
    assert [each.turn for each in shop.list_events(TurnFailed)] == [2]
    await run_numbered_turn(shop, 3)
    await run_numbered_turn(shop, 4)
    assert [each.turn for each in shop.list_events(TurnCompleted)] == [1, 3, 4]
    assert {each.manifest.lowered_by for each in shop.list_events(ContextAssembled)} == {None}
