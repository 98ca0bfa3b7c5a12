"""History views: the latest messages, exclusions, and how a turn was worked out."""

from __future__ import annotations

import asyncio

import pytest

from tests.agent_programs.agent_harness import (
    TWO_STEP_SCRIPTS,
    AgentHarness,
    build_agent_blueprint,
    build_plan_script,
)
from tests.agent_programs.agent_service import (
    TWO_STEP_ANSWERS,
    AgentService,
    answer_with_plan,
    answer_with_text,
)
from tests.agent_programs.history.condensed_conversations import (
    build_chat_blueprint,
    get_latest_manifest,
    run_conversation,
)
from tests.agent_programs.turns.test_turn_crashes import APPENDS, CrashingLog, build_crashing_worker
from tests.support.sessions.session_harness import ACK_WAIT, TENANT, TESTER, build_delivery
from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.session.commands import ExcludeTurn
from turnlog.projections.session.turn_commands import RedactReply
from turnlog.services.worker.turn_delivery import DeliverySettled

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


def build_recalling_agent(**words: object) -> Blueprint:
    """Return an agent whose plans see how earlier turns were worked out."""
    return build_agent_blueprint(
        calls={
            **build_agent_blueprint().model_dump(mode="json", by_alias=True, exclude_unset=True)[
                "calls"
            ],
            "plan": {
                "messages": [{"system": ["rules"]}, {"history": "workflow"}, {"user": ["input"]}]
            },
        },
        history={"recent": {}, "workflow": {"like": "recent", "of": "work"} | words},
    )


async def test_u16_plan_includes_activity_of_previous_turns(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_recalling_agent())
    await platform.complete_turn(session, *TWO_STEP_ANSWERS)
    await platform.complete_turn(
        session, answer_with_plan(), answer_with_text("Yes."), text="Is it?"
    )
    assert platform.get_request_texts(4)[1:] == ["Get me a hammer.", WORK, "Is it?"]
    assert platform.get_request_texts(5)[1:] == ["Get me a hammer.", "It is yours.", "Is it?"]
    explanation = await platform.fetch_json(f"/v1/sessions/{session}/calls/2.1/why")
    assert explanation["call"] == "2.1"


async def test_turn_activity_is_not_recorded_if_no_view_includes_it() -> None:
    shop = await AgentHarness().open_session()
    await shop.run_turn(*TWO_STEP_SCRIPTS)
    assert [each.work for each in shop.list_events(TurnCompleted)] == [None]


async def test_reply_recovered_after_worker_crash_records_its_turn_activity() -> None:
    shop = await AgentHarness(kind=build_recalling_agent()).open_session()
    house = shop.house
    house.model.scripts = [*TWO_STEP_SCRIPTS]
    submitted = await house.submit_turn("Get me a hammer.")
    mortal = CrashingLog(log=house.log, fatal=APPENDS, when="before")
    dying = build_crashing_worker(house, mortal, "dying")
    working = asyncio.create_task(dying.run_turn(build_delivery(submitted)))
    await mortal.dead.wait()
    await cancel_tasks(working)
    await asyncio.sleep(ACK_WAIT)
    assert await house.run_redelivered_turn(submitted) == DeliverySettled()
    assert len(house.model.requests) == len(TWO_STEP_SCRIPTS)
    (reply,) = shop.list_events(TurnCompleted)
    assert reply.work.text == WORK.removesuffix("\n\nIt is yours.")


async def test_activity_of_redacted_reply_is_withheld_but_not_which_tools_ran() -> None:
    shop = await AgentHarness(kind=build_recalling_agent()).open_session()
    await shop.run_turn(*TWO_STEP_SCRIPTS)
    withheld = RedactReply(1, "a slip", "operator", "(Withheld.)")
    await shop.house.sessions.handle(TENANT, "s", withheld, TESTER)
    await shop.run_turn(build_plan_script(), ["Yes."], text="Is it?")
    _, question, answer, _ = shop.get_request_texts(4)
    assert question == "Get me a hammer."
    assert answer.splitlines() == [
        "Tools that ran:",
        "- shop_look (key 1.2/t1): answered",
        "- shop_pay (key 1.3/t1): answered",
        "",
        "(Withheld.)",
    ]


async def test_last_messages_are_counted_before_turns_are_excluded() -> None:
    shop = await run_conversation(
        [(f"{n}?", f"{n}.") for n in range(1, 6)], build_chat_blueprint(last_messages=5)
    )
    await shop.house.sessions.handle(TENANT, "s", ExcludeTurn(5), TESTER)
    await shop.run_turn(["So."], text="And?")
    assert shop.get_request_texts(5) == ["4?", "4.", "And?"]
    assert [part.rule for part in get_latest_manifest(shop).parts] == [
        "last_messages",
        None,
        "excluded",
        None,
    ]


async def test_turns_that_match_a_skip_rule_are_excluded() -> None:
    shop = await run_conversation(PRIMED, build_chat_blueprint(skip=SKIP))
    assert shop.get_request_texts(2) == ["Who?", "Me.", "Why?"]
    assert [(part.rule, part.is_included) for part in get_latest_manifest(shop).parts[:2]] == [
        ("skip", False),
        (None, True),
    ]


async def test_repeated_turn_activity_is_condensed() -> None:
    shop = await AgentHarness(kind=build_recalling_agent(condense="duplicates")).open_session()
    await shop.run_turn(*TWO_STEP_SCRIPTS)
    await shop.run_turn(*TWO_STEP_SCRIPTS, text="And another one.")
    await shop.run_turn(build_plan_script(), ["Yes."], text="Is it?")
    assert shop.get_request_texts(8)[1:] == [
        "Get me a hammer.",
        "Planned:\n1. Find a hammer.\n2. Pay for it.\n(said again below)\n\nIt is yours.",
        "And another one.",
        WORK,
        "Is it?",
    ]
