"""A turn of the `loop` program: the model calls tools in rounds until it answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from pydantic import JsonValue

from tests.agent_programs.agent_harness import (
    LOOP_PROFILE,
    USAGE,
    FakeToolServer,
    build_loop_blueprint,
    build_tool_script,
    open_loop,
)
from tests.support.sessions.puppet_model import ScriptStep
from turnlog.events.content import PlainText
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.memory_events import SummaryBegun
from turnlog.events.model.tool_events import ToolCalled, ToolReturned, ToolsSnapshotted
from turnlog.events.model.turn_events import TurnCompleted, TurnFailed
from turnlog.projections.blueprint.validation.blueprint_checks import check_blueprint
from turnlog.projections.tools.tool_catalog import ToolOffer
from turnlog.services.worker.model.model_types import FinishedAnswer, ModelToolCall


def test_loop_blueprint_is_valid() -> None:
    assert [*check_blueprint(build_loop_blueprint())] == []


async def test_tools_are_called_in_rounds_until_the_model_answers() -> None:
    shop = await open_loop()
    await shop.run_turn(
        build_tool_script(("shop_look", '{"what": "hammer"}'), ("shop_look", '{"what": "nail"}')),
        build_tool_script(("shop_pay", '{"what": "hammer"}')),
        ["It is ", "yours."],
    )
    assert shop.house.list_event_names()[1:] == [
        *("turn-submitted", "attempt-started", "tools-snapshotted", "context-assembled"),
        *("call-completed", "tool-called", "tool-called", "attempt-started"),
        *("tool-started", "tool-started", "tool-returned", "tool-returned", "context-assembled"),
        *("call-completed", "tool-called", "attempt-started"),
        *("tool-started", "tool-returned", "context-assembled"),
        "turn-completed",
    ]
    (reply,) = shop.list_events(TurnCompleted)
    assert (reply.text, reply.call) == (PlainText(text="It is yours."), "1.3")
    first, *_ = shop.house.model.requests
    assert shop.list_offered_tools() == [["shop_look", "shop_pay"]] * 3
    assert [each["role"] for each in first.messages] == ["system", "user"]


@pytest.mark.parametrize(
    ("tool", "alias"),
    [("saw.wood", "shop_saw_wood"), ("saw/it", "shop_saw_it"), ("säg", "shop_sag")],
)
async def test_prompts_of_later_rounds_repeat_the_alias_of_a_tool(tool: str, alias: str) -> None:
    shop = await open_loop()
    shop.shop.extra_offers = (ToolOffer(tool=tool, description="Saws.", schema={}),)
    await shop.run_turn(
        build_tool_script((alias, "{}")), build_tool_script((f"shop_{tool}", "{}")), ["Sawn."]
    )
    assert [called for called, _ in shop.shop.tool_calls] == [tool, tool]
    calls = [each for each in shop.list_events(ToolCalled) if isinstance(each, ToolCalled)]
    assert [(each.tool, each.alias) for each in calls] == [(f"shop_{tool}", alias)] * 2
    asked: list[Any] = [*shop.house.model.requests[2].messages]
    named = [call["function"]["name"] for each in asked for call in each.get("tool_calls", ())]
    assert named == [alias, alias]


async def test_every_tool_call_in_a_prompt_is_followed_by_its_result() -> None:
    shop = await open_loop()
    calls = (
        ModelToolCall("a", "shop_look", '{"what": "hammer"}'),
        ModelToolCall("b", "shop_look", '{"what": "nail"}'),
    )
    answer = FinishedAnswer(
        finish_reason="tool_calls",
        tool_calls=calls,
        usage=USAGE,
        model="puppet/one",
        response_id=None,
    )
    shop.shop.results = ["3 in stock", "line one\nline two"]
    await shop.run_turn(["Let me look.", answer], ["There are three."])
    assert [*shop.house.model.requests[1].messages[2:]] == [
        {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [
                build_call("a", "shop_look", '{"what": "hammer"}'),
                build_call("b", "shop_look", '{"what": "nail"}'),
            ],
        },
        {"role": "tool", "content": "3 in stock", "tool_call_id": "a"},
        {"role": "tool", "content": "line one\n  line two", "tool_call_id": "b"},
    ]


def build_call(id: str, tool: str, arguments: str) -> dict[str, JsonValue]:
    return {"id": id, "type": "function", "function": {"name": tool, "arguments": arguments}}


async def test_idempotent_tools_of_one_answer_run_concurrently_and_others_sequentially() -> None:
    shop = await open_loop()
    running, most = Counter[str](), Counter[str]()

    async def overlap() -> None:
        tool = shop.shop.tool_calls[-1][0]
        running[tool] += 1
        most[tool] = max(most[tool], running[tool])
        for _ in range(100):
            await asyncio.sleep(0)
        running[tool] -= 1

    shop.shop.during_call = overlap
    looks, pays = (("shop_look", "{}"), ("shop_look", "{}")), (("shop_pay", "{}"),) * 2
    await shop.run_turn(build_tool_script(*looks, *pays), ["Done."])
    assert most == {"look": 2, "pay": 1}
    assert [tool for tool, _ in shop.shop.tool_calls] == ["look", "look", "pay", "pay"]


async def test_server_can_declare_a_tool_as_idempotent() -> None:
    peek = ToolOffer(
        tool="peek", description="Looks again.", schema={"type": "object"}, idempotent=True
    )
    shop = await open_loop(FakeToolServer(extra_offers=(peek,)))
    await shop.run_turn(["Hello."])
    (taken,) = shop.list_events(ToolsSnapshotted)
    assert {name for name, pin in taken.tools.items() if pin.idempotent} == {
        *("shop_look", "shop_peek")
    }


async def test_answer_without_text_has_null_content_beside_its_tool_calls() -> None:
    shop = await open_loop()
    await shop.run_turn(build_tool_script(("shop_look", "{}")), ["Three."])
    assert shop.house.model.requests[1].messages[2]["content"] is None


@pytest.mark.parametrize("written", ["", "no JSON", "[1]", '{"what": '])
async def test_malformed_arguments_are_sent_back_as_an_empty_object(written: str) -> None:
    shop = await open_loop()
    await shop.run_turn(build_tool_script(("shop_look", written)), ["I could not look."])
    message: Any = shop.house.model.requests[1].messages[2]
    assert message["tool_calls"][0]["function"]["arguments"] == "{}"
    (called,) = shop.list_events(ToolCalled)
    assert called.arguments == written


async def test_tool_that_was_not_offered_is_refused_with_a_message_to_the_model() -> None:
    shop = await open_loop()
    await shop.run_turn(build_tool_script(("shop_fly", "{}")), ["I cannot fly."])
    (returned,) = shop.list_events(ToolReturned)
    assert returned.outcome == "refused"
    assert "no tool 'shop_fly' was offered" in str(shop.house.model.requests[1].messages[3])
    assert shop.shop.tool_calls == []


def call_look(name: str) -> list[ScriptStep]:
    return build_tool_script(("shop_look", "{}"), named=f"{name}{{}}")


async def test_tools_after_the_last_round_are_refused_with_a_message_to_the_model() -> None:
    shop = await open_loop(profiles={"agent": {**LOOP_PROFILE, "max_rounds": 2}})
    await shop.run_turn(call_look("a"), call_look("b"), call_look("c"), ["Enough."])
    assert len(shop.shop.tool_calls) == 2
    assert [each.outcome for each in shop.list_events(ToolReturned)] == [
        *("answered", "answered", "refused")
    ]
    told = shop.house.model.requests[3].messages[-1]["content"]
    assert told == "refused: the turn may call no more tools; answer with what there is"
    assert len(shop.list_events(TurnCompleted)) == 1


async def test_model_that_keeps_calling_tools_after_the_last_round_fails_the_turn() -> None:
    shop = await open_loop(profiles={"agent": {**LOOP_PROFILE, "max_rounds": 1}})
    await shop.run_turn(call_look("a"), call_look("b"), call_look("c"))
    (failed,) = shop.list_events(TurnFailed)
    assert (failed.code, failed.retryable) == ("rounds-exhausted", False)
    assert len(shop.shop.tool_calls) == 1


async def test_text_beside_tool_calls_is_the_reply_if_no_round_is_left() -> None:
    shop = await open_loop(profiles={"agent": {**LOOP_PROFILE, "max_rounds": 1}})
    calls = (ModelToolCall("d", "shop_look", "{}"),)
    last = FinishedAnswer(
        finish_reason="tool_calls",
        tool_calls=calls,
        usage=USAGE,
        model="puppet/one",
        response_id=None,
    )
    await shop.run_turn(call_look("a"), call_look("b"), ["Three.", last])
    (reply,) = shop.list_events(TurnCompleted)
    assert reply.text == PlainText(text="Three.")
    assert shop.list_events(ToolReturned)[-1].outcome == "refused"


async def test_duplicate_tool_call_ids_beside_a_reply_get_distinct_ids() -> None:
    shop = await open_loop(profiles={"agent": {**LOOP_PROFILE, "max_rounds": 1}})
    calls = (ModelToolCall("d", "shop_look", "{}"), ModelToolCall("d", "shop_pay", "{}"))
    last = FinishedAnswer(
        finish_reason="tool_calls",
        tool_calls=calls,
        usage=USAGE,
        model="puppet/one",
        response_id=None,
    )
    await shop.run_turn(call_look("a"), call_look("b"), ["Three.", last])
    returned = [each.id for each in shop.list_events(ToolReturned) if each.call == "1.3"]
    assert returned == ["d", "d#2"]


async def test_tool_rounds_do_not_appear_in_the_next_turn() -> None:
    shop = await open_loop()
    await shop.run_turn(build_tool_script(("shop_look", "{}")), ["Three."])
    await shop.run_turn(["Still three."], text="And now?")
    roles = [each["role"] for each in shop.house.model.requests[2].messages]
    assert roles == ["system", "user", "assistant", "user"]


async def test_every_prompt_of_a_loop_records_the_sources_of_its_rounds() -> None:
    shop = await open_loop()
    await shop.run_turn(build_tool_script(("shop_look", '{"what": "nail"}')), ["Three."])
    parts = shop.list_events(ContextAssembled)[1].manifest.parts
    rounds = [part for part in parts if part.component == "tool_rounds"]
    assert [(part.layer, part.role, part.item) for part in rounds] == [
        ("tool_calls", "tool_call", "shop_look"),
        ("tool_results", "tool", None),
    ]


async def test_summary_between_two_rounds_leaves_the_rounds_unchanged() -> None:
    older: list[Any] = [{"history": "older"}, {"user": ["sum_up"]}]
    plain = build_loop_blueprint().model_dump(mode="json", by_alias=True, exclude_unset=True)
    steps: list[JsonValue] = [
        {"condense_results": {"layer": "tool_results", "to": "digest"}},
        {"summarise": {}},
    ]
    window: dict[str, JsonValue] = {
        "tokens": 560,
        "counter": {"chars_per_token": 1},
        "ladder": steps,
    }
    shop = await open_loop(
        layers={**plain["layers"], "sum_up": {"text": "Sum up what was said."}},
        calls={
            "converse": {**plain["calls"]["converse"], "budget": "window"},
            "sum_up": {"messages": older},
        },
        history={
            "recent": {"summary": {"call": "sum_up", "keep_messages": 2}},
            "older": {"of": "selected"},
        },
        budget={"window": window},
    )
    for number in (1, 2):
        await shop.run_turn([f"Reply {number}: {'word ' * 20}"], text=f"Turn {number}.")
    assert shop.list_events(SummaryBegun) == []
    look = build_tool_script(("shop_look", '{"what": "hammer"}'))
    shop.shop.results = ["in stock: hammers, nails, ropes, saws, screws"]
    await shop.run_turn(look, ["They spoke."], ["Three."], text="Turn 3.")
    (begun,) = shop.list_events(SummaryBegun)
    assert begun.trigger is not None
    assert begun.trigger.of == "prompt"
    assert [each.manifest.kind for each in shop.list_events(ContextAssembled)][-3:] == [
        *("converse", "sum_up", "converse")
    ]
    messages = shop.house.model.requests[-1].messages
    assert [each["role"] for each in messages] == [
        *("system", "user", "assistant", "user", "assistant", "tool")
    ]
    assert str(messages[0]["content"]).endswith("\n\nThey spoke.")
    assert len(shop.shop.tool_calls) == 1
    assert len(shop.list_events(TurnCompleted)) == 3
