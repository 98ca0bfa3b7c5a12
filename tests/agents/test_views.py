"""History views: the latest messages, exclusions, and how a turn was worked out."""

from __future__ import annotations

import asyncio

import pytest

from tests.agents.platform import STEPS, Platform, plans, says
from tests.agents.test_condensing import chat, last, talked
from tests.agents.test_crashes import APPENDS, Mortal
from tests.agents.workshop import TURN, Workshop, agent, planning
from tests.parts.house import ACK_WAIT, BY, TENANT, delivery
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.session.commands import ExcludeTurn, RedactReply
from turnlog.services.platform.concurrency import cancel_tasks
from turnlog.services.worker.turn_queue import DeliverySettled

pytestmark = pytest.mark.asyncio(loop_scope="module")
PRIMED = [("You are a helpful assistant.", "Understood."), ("Who?", "Me."), ("Why?", "So.")]
SKIP = ("You are a helpful assistant.", "Understood.")
WORK = """\
Planned:
1. Find a hammer.
2. Pay for it.
Tools gave:
shop_look {"what": "hammer"}
  3 in stock
shop_pay {"what": "hammer"}
  3 in stock

It is yours."""


def recalling(**words: object) -> Blueprint:
    """Return an agent whose plans see how earlier turns were worked out."""
    return agent(
        calls={
            **agent().model_dump(mode="json", by_alias=True, exclude_unset=True)["calls"],
            "plan": {
                "messages": [{"system": ["rules"]}, {"history": "workflow"}, {"user": ["input"]}]
            },
        },
        history={"recent": {}, "workflow": {"like": "recent", "of": "work"} | words},
    )


async def test_u16_a_plan_is_told_how_the_turns_before_were_worked_out(platform: Platform) -> None:
    session = await platform.open(recalling())
    await platform.turn(session, *STEPS)
    await platform.turn(session, plans(), says("Yes."), text="Is it?")
    assert platform.said(4)[1:] == ["Get me a hammer.", WORK, "Is it?"]
    assert platform.said(5)[1:] == ["Get me a hammer.", "It is yours.", "Is it?"]
    why = await platform.get(f"/v1/sessions/{session}/calls/2.1/why")
    assert why["call"] == "2.1"


async def test_nothing_is_kept_of_how_it_went_where_nobody_is_told() -> None:
    shop = await Workshop().opened()
    await shop.turn(*TURN)
    assert [each.work for each in shop.events(TurnCompleted)] == [None]


async def test_a_reply_found_whole_after_its_worker_died_says_as_much() -> None:
    shop = await Workshop(kind=recalling()).opened()
    house = shop.house
    house.model.scripts = [*TURN]
    submitted = await house.submit("Get me a hammer.")
    dying = house.worker("dying")
    mortal = Mortal(house.log, APPENDS, "before")
    dying.sessions.log = mortal  # type: ignore[assignment]
    working = asyncio.create_task(dying.run_turn(delivery(submitted)))
    await mortal.dead.wait()
    await cancel_tasks(working)
    await asyncio.sleep(ACK_WAIT)
    assert await house.answer_again(submitted) == DeliverySettled()
    assert len(house.model.requests) == len(TURN)
    (reply,) = shop.events(TurnCompleted)
    assert reply.work.text == WORK.removesuffix("\n\nIt is yours.")


async def test_how_a_withheld_reply_was_worked_out_is_withheld() -> None:
    shop = await Workshop(kind=recalling()).opened()
    await shop.turn(*TURN)
    withheld = RedactReply(1, "a slip", "operator", "(Withheld.)")
    await shop.house.sessions.handle(TENANT, "s", withheld, BY)
    await shop.turn(planning(), ["Yes."], text="Is it?")
    assert shop.said(4)[1:] == ["Get me a hammer.", "(Withheld.)", "Is it?"]


async def test_messages_are_counted_back_before_anything_is_left_out() -> None:
    shop = await talked([(f"{n}?", f"{n}.") for n in range(1, 6)], chat(last_messages=5))
    await shop.house.sessions.handle(TENANT, "s", ExcludeTurn(5), BY)
    await shop.turn(["So."], text="And?")
    assert shop.said(5) == ["4?", "4.", "And?"]
    assert [part.rule for part in last(shop).parts] == ["last_messages", None, "excluded", None]


async def test_what_is_of_no_interest_is_skipped() -> None:
    shop = await talked(PRIMED, chat(skip=SKIP))
    assert shop.said(2) == ["Who?", "Me.", "Why?"]
    assert [(part.rule, part.is_included) for part in last(shop).parts[:2]] == [
        ("skip", False),
        (None, True),
    ]


async def test_how_it_went_can_be_told_in_short_as_well() -> None:
    shop = await Workshop(kind=recalling(condense="duplicates")).opened()
    await shop.turn(*TURN)
    await shop.turn(*TURN, text="And another one.")
    await shop.turn(planning(), ["Yes."], text="Is it?")
    assert shop.said(8)[1:] == [
        "Get me a hammer.",
        "Planned:\n1. Find a hammer.\n2. Pay for it.\n(said again below)\n\nIt is yours.",
        "And another one.",
        WORK,
        "Is it?",
    ]
