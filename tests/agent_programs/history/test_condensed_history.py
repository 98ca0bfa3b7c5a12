"""U7 and U11: history condensed by a view's option or by a ladder step.

Every session of these tests is reproduced when its test ends: from its references, by assembling it
again, and by the verifier of a bundle.
"""

from __future__ import annotations

import pytest

from tests.agent_programs.agent_service import AgentService, answer_with_text
from tests.agent_programs.history.condensed_conversations import (
    CAN,
    PRODUCTS,
    TALK,
    TOLD,
    build_chat_blueprint,
    get_latest_manifest,
    run_conversation,
)
from tests.support.sessions.session_harness import TENANT, TESTER
from turnlog.events.model.manifest import HistorySource
from turnlog.projections.session.commands import ExcludeTurn
from turnlog.projections.session.turn_commands import RedactReply

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_u7_text_repeated_in_later_turn_is_included_once(platform: AgentService) -> None:
    tokens: list[int] = []
    for condense in (None, "duplicates"):
        session = await platform.open_session(
            build_chat_blueprint(condense=condense), attributes={}
        )
        for question, answer in TALK:
            await platform.complete_turn(session, answer_with_text(answer), text=question)
        await platform.complete_turn(session, answer_with_text("You are welcome."), text="Thanks!")
        prompt = await platform.fetch_prompt(session, "8.1")
        tokens.append(prompt["manifest"]["tokens"])
    full_tokens, short_tokens = tokens
    assert 0.1 <= 1 - short_tokens / full_tokens <= 0.2
    condensed = [part for part in prompt["manifest"]["parts"] if part["treatment"] == "condensed"]
    assert [part["rule"] for part in condensed] == ["duplicates"]
    assert condensed[0]["source"]["later"] == 5
    assert prompt["messages"][1]["content"].endswith("I can\n(said again below)")
    assert CAN in prompt["messages"][9]["content"]


async def test_u11_repeated_question_is_condensed_with_each_value_and_count(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_chat_blueprint(condense="repeats"), attributes={})
    for question, answer in PRODUCTS:
        await platform.complete_turn(session, answer_with_text(answer), text=question)
    shortest = "Which was the shortest list?"
    await platform.complete_turn(session, answer_with_text("The last."), text=shortest)
    assert platform.get_request_texts(3)[2:] == [*PRODUCTS[-1], shortest], "the last exchange"
    await platform.complete_turn(session, answer_with_text("Yes."), text="Sure?")
    assert platform.get_request_texts(4) == [
        "Show products under … (3 times, in turn with: $50; $30; $20)",
        TOLD,
        *(shortest, "The last.", "Sure?"),
    ]
    manifest = (await platform.fetch_prompt(session, "5.1"))["manifest"]
    run, _ = [part for part in manifest["parts"] if part["layer"] == "history"]
    assert (run["treatment"], run["rule"]) == ("condensed", "repeats")
    assert (run["source"]["first"], run["source"]["last"]) == (1, 3)
    assert run["saved"] / (run["saved"] + run["tokens"]) >= 0.5


async def test_u12_repeats_are_condensed_if_history_exceeds_its_budget() -> None:
    steps = [{"condense_repeats": {"history": "told"}}, {"drop_oldest_pairs": {"history": "told"}}]
    budget = {"tokens": 690, "counter": {"chars_per_token": 4}, "ladder": steps}
    shop = await run_conversation(
        [*PRODUCTS, ("And now?", "Now what?")], build_chat_blueprint(budget=budget)
    )
    manifest = get_latest_manifest(shop)
    assert [step.step for step in manifest.steps] == ["condense_repeats"]
    told, last = TOLD.rpartition(";")[0], PRODUCTS[-1]
    assert shop.get_request_texts(3)[1:4] == [told, *last]
    assert shop.get_request_texts(2)[0] == "Show products under $50"


async def test_condensed_repeats_reflect_later_redactions_and_exclusions() -> None:
    talk = [*PRODUCTS, ("And now?", "Now what?")]
    shop = await run_conversation(talk, build_chat_blueprint(condense="repeats"))
    withheld = RedactReply(2, "a slip", "operator", "(Withheld.)")
    await shop.house.sessions.handle(TENANT, "s", withheld, TESTER)
    await shop.run_turn(["Yes."], text="Sure?")
    assert shop.get_request_texts(4)[1] == TOLD.replace(
        "I found 28 products under $30 …", "(Withheld.)"
    )
    await shop.house.sessions.handle(TENANT, "s", ExcludeTurn(2), TESTER)
    await shop.run_turn(["Yes."], text="Quite sure?")
    assert shop.get_request_texts(5)[0] == "Show products under $50"


async def test_turn_repeated_entirely_by_later_turn_is_excluded() -> None:
    question, reply = TALK[1]
    talk = [(question, reply), ("What is new?", "Nothing much."), (question, reply), ("So?", "So.")]
    shop = await run_conversation(talk, build_chat_blueprint(condense="duplicates"))
    assert shop.get_request_texts(3) == ["What is new?", "Nothing much.", question, reply, "So?"]
    excluded_parts = [part for part in get_latest_manifest(shop).parts if not part.is_included]
    assert [(part.source, part.rule) for part in excluded_parts] == [
        (HistorySource(view="told", first=1, last=1), "duplicates")
    ]


async def test_diff_attributes_condensed_history_to_the_events_that_changed_it(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_chat_blueprint(condense="repeats"), attributes={})
    for question, answer in PRODUCTS:
        await platform.complete_turn(session, answer_with_text(answer), text=question)
    await platform.complete_turn(
        session, answer_with_text("The last."), text="Which was the shortest list?"
    )
    await platform.http.put(f"/v1/sessions/{session}/turns/2/exclusion")
    await platform.complete_turn(session, answer_with_text("Yes."), text="Sure?")
    shorter, longer = [
        [
            (each["first"], each["last"], because["what"], len(because["by"]))
            for each in (await platform.fetch_json(f"/v1/sessions/{session}/calls/{path}"))[
                "changes"
            ]
            for because in each["because"]
            if each["layer"] == "history"
        ]
        for path in ("3.1/diff/4.1", "4.1/diff/5.1")
    ]
    assert shorter == [(1, 2, "answered", 1), (3, 3, "answered", 1)]
    assert longer[:2] == [(1, 1, "excluded", 1), (2, 2, "excluded", 1)]
