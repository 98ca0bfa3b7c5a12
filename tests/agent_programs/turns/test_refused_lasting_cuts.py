"""Cuts that last, where a provider refuses the prompt that was cut as too long."""

from __future__ import annotations

from tests.agent_programs.history.test_summaries import build_ladder_blueprint, run_turns
from tests.agent_programs.turns.test_overflow_crashes import LIMIT, NarrowModel
from turnlog.events.model.call_events import ContextAssembled
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint


def build_lasting_blueprint() -> Blueprint:
    plain = build_ladder_blueprint("drop_oldest_pairs").model_dump(
        mode="json", by_alias=True, exclude_unset=True
    )
    (budget,) = plain["budget"].values()
    budget["ladder"] = [{"drop_oldest_pairs": {"to": "60%"}}]
    return Blueprint.model_validate(plain)


async def test_prompt_that_is_sent_again_is_cut_and_later_ones_keep_the_cut_of_their_limit() -> (
    None
):
    shop = await run_turns(2, build_lasting_blueprint())
    shop.house.model = NarrowModel()
    for text in ("Go on.", "And then?", "What else?"):
        await shop.run_turn(text=text)
    *_, refused, again, first, second = shop.list_events(ContextAssembled)
    assert (again.supersedes, again.manifest.lowered_by) == (refused.call, refused.call)
    assert again.manifest.tokens <= LIMIT
    steps = [each.manifest.steps[0] for each in (again, first, second)]
    assert [each.through for each in steps] == [2, 2, 2]
    # Only the prompt that is sent at once is held to less than later ones
    assert [each.since for each in steps] == [None, None, first.call]
    assert second.manifest.prefix is not None
    assert second.manifest.prefix.ended_by is None
