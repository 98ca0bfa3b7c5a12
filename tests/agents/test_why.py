"""Why a turn of several calls got its answer: its hidden calls and the sources of their text."""

from __future__ import annotations

from functools import partial

from tests.agents.workshop import TURN, Workshop
from tests.properties.test_explained_in_part import in_part
from turnlog.projections.audit.diff import Diff, diff
from turnlog.projections.audit.known import Known, whole
from turnlog.projections.audit.sides import side_of
from turnlog.projections.audit.why import Why, why, why_call


async def bought() -> Workshop:
    shop = await Workshop().opened()
    await shop.turn(*TURN)
    return shop


def by(told: Why, layer: str) -> list[list[str]]:
    """Return the event names of each kept part of a layer."""
    parts = [each for each in told.parts if each.part.layer == layer and each.part.kept]
    return [[cause.event for cause in each.by] for each in parts]


async def test_a_turn_is_explained_by_the_call_of_its_reply_beside_the_hidden_ones() -> None:
    shop = await bought()
    told = why(whole(shop.house.events()), 1)
    assert told.call == "1.4"
    assert [(each.call, each.kind, each.gave) for each in told.calls] == [
        ("1.1", "plan", ("a plan of 2 steps",)),
        ("1.2", "tactic", ("shop_look",)),
        ("1.3", "tactic", ("shop_pay",)),
        ("1.4", "synthesise", ("the reply",)),
    ]
    assert told.superseded == ()


async def test_what_a_tool_gave_is_told_with_what_asked_for_it() -> None:
    shop = await bought()
    told = why(whole(shop.house.events()), 1)
    assert by(told, "results") == [["tool-called", "tool-returned"]] * 2
    assert [each.tool for each in told.parts if each.tool] == [
        "shop_look, t1 of call 1.2",
        "shop_pay, t1 of call 1.3",
    ]


async def test_a_hidden_call_is_explained_by_its_name() -> None:
    shop = await bought()
    events = whole(shop.house.events())
    tactic = why_call(events, "1.2")
    assert by(tactic, "goal") == [["step-planned"]]
    offered = [each for each in tactic.parts if each.part.role == "tools"]
    assert [[cause.event for cause in each.by] for each in offered] == [["tools-snapshotted"]]
    assert by(why_call(events, "1.1"), "tools") == [["tools-snapshotted"]]


async def test_turns_of_several_calls_are_explained_from_part_of_a_session_as_from_all() -> None:
    shop = await bought()
    await shop.turn(*TURN, text="And another one.")
    events = list(shop.house.events())
    everything = whole(events)
    for call in ("1.2", "2.1", "2.4"):
        told = in_part(events, {call}, partial(why_call, call=call))
        assert told == why_call(everything, call)
    for calls in (("1.1", "2.1"), ("2.3", "2.4"), ("2.2", "1.4")):
        differs = in_part(events, {*calls}, partial(differing, before=calls[0], after=calls[1]))
        assert differs == differing(everything, *calls)


def differing(known: Known, before: str, after: str) -> Diff:
    return diff(side_of(known, before), side_of(known, after))
