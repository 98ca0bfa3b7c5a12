"""A turn of the `tools` program: a plan, a call for each step, tool calls and the reply."""

from __future__ import annotations

import json

from pydantic import JsonValue

from tests.agent_programs.agent_harness import (
    TWO_STEP_SCRIPTS,
    USAGE,
    AgentHarness,
    FakeToolServer,
    build_plan_script,
    build_tool_script,
)
from tests.support.sessions.puppet_model import ScriptStep
from tests.support.sessions.session_harness import TENANT, TESTER
from turnlog.events.content import PlainText
from turnlog.events.model.call_events import (
    AttemptEnded,
    AttemptStarted,
    CallCompleted,
    ContextAssembled,
)
from turnlog.events.model.tool_events import ToolCalled, ToolReturned, ToolsSnapshotted
from turnlog.events.model.turn_events import TurnCompleted, TurnFailed
from turnlog.events.tokens import Token
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.session.commands import CancelTurn
from turnlog.projections.tools.tool_catalog import ToolOffer
from turnlog.services.worker.model.model_types import FinishedAnswer, ModelFailure, ModelToolCall

EIGHT = tuple((f"Step {n}.", ()) for n in range(8))


async def test_turn_plans_runs_each_step_and_replies() -> None:
    shop = await AgentHarness().open_session()
    await shop.run_turn(*TWO_STEP_SCRIPTS)
    assert shop.house.list_event_names()[1:] == [
        "turn-submitted",
        "attempt-started",
        "tools-snapshotted",
        "context-assembled",
        *("call-completed", "plan-made", "step-planned", "step-planned"),
        "attempt-started",
        "context-assembled",
        *("call-completed", "tool-called", "attempt-started"),
        *("tool-started", "tool-returned"),
        "context-assembled",
        *("call-completed", "tool-called", "attempt-started"),
        *("tool-started", "tool-returned"),
        "context-assembled",
        "turn-completed",
    ]
    assert [each.manifest.kind for each in shop.list_events(ContextAssembled)] == [
        *("plan", "tactic", "tactic", "synthesise")
    ]
    assert [each.call for each in shop.list_events(ContextAssembled)] == [
        "1.1",
        "1.2",
        "1.3",
        "1.4",
    ]
    assert shop.shop.tool_calls == [("look", {"what": "hammer"}), ("pay", {"what": "hammer"})]
    (reply,) = shop.list_events(TurnCompleted)
    assert (reply.text, reply.call) == (PlainText(text="It is yours."), "1.4")


async def test_each_call_includes_only_its_own_step_tools_and_results() -> None:
    shop = await AgentHarness().open_session()
    await shop.run_turn(*TWO_STEP_SCRIPTS)
    looked = 'shop_look {"what": "hammer"}\n  3 in stock'
    paid = 'shop_pay {"what": "hammer"}\n  3 in stock'
    assert "- shop_look: Looks for a thing." in shop.get_request_texts(0)[0]
    assert shop.get_request_texts(1) == ["Find a hammer.", "Get me a hammer."]
    assert shop.get_request_texts(2) == [f"Pay for it.\n\n{looked}", "Get me a hammer."]
    assert shop.get_request_texts(3) == [f"Plan first.\n\n{looked}\n{paid}", "Get me a hammer."]
    assert shop.list_offered_tools() == [[], ["shop_look"], ["shop_pay"], []]


async def test_token_stream_contains_only_the_reply() -> None:
    shop = await AgentHarness().open_session()
    await shop.run_turn(*TWO_STEP_SCRIPTS)
    events = [each.event for each in await shop.house.tokens.read_token_events(TENANT, "s", 1)]
    tokens = [event for event in events if isinstance(event, Token)]
    assert [(token.call, token.text) for token in tokens] == [("1.4", "It is "), ("1.4", "yours.")]


async def test_plan_without_steps_is_answered_at_once() -> None:
    shop = await AgentHarness().open_session()
    await shop.run_turn(build_plan_script(), ["Hello."])
    assert [each.manifest.kind for each in shop.list_events(ContextAssembled)] == [
        "plan",
        "synthesise",
    ]


async def test_tools_are_pinned_once_and_listed_by_name_from_the_second_turn() -> None:
    shop = await AgentHarness().open_session()
    await shop.run_turn(build_plan_script(), ["One."])
    await shop.run_turn(build_plan_script(), ["Two."])
    assert len(shop.list_events(ToolsSnapshotted)) == 1
    assert shop.get_request_texts(2)[0] == "Plan first.\n\n- shop_look\n- shop_pay"


async def test_listing_twenty_tools_by_name_takes_under_two_fifths_of_their_descriptions() -> None:
    argument = {"type": "string", "description": "Which one is meant, by its number."}
    schema: dict[str, JsonValue] = {"type": "object", "properties": {"which": {**argument}}}
    about = "Looks into one of the many drawers that there are and says what is in it."
    drawers = tuple(
        ToolOffer(tool=f"drawer_{n}", description=about, schema=schema) for n in range(18)
    )
    shop = await AgentHarness(FakeToolServer(extra_offers=drawers)).open_session()
    await shop.run_turn(build_plan_script(), ["One."])
    await shop.run_turn(build_plan_script(), ["Two."])
    full, named = (count_tool_tokens(each) for each in shop.list_events(ContextAssembled)[::2])
    assert named < 0.4 * full


def count_tool_tokens(call: ContextAssembled) -> int:
    return sum(part.tokens for part in call.manifest.parts if part.component == "tools_context")


async def test_unreadable_plan_is_requested_again_with_the_reason() -> None:
    shop = await AgentHarness().open_session()
    await shop.run_turn(["I would rather not."], build_plan_script(), ["Well."])
    kinds = [each.manifest.kind for each in shop.list_events(ContextAssembled)]
    assert kinds == ["plan", "plan", "synthesise"]
    assert [each.attempt for each in shop.list_events(AttemptStarted)] == [1, 2, 3]
    assert "I would rather not." in shop.get_request_texts(1)[-2]


async def test_repairs_of_a_plan_are_recorded() -> None:
    shop = await AgentHarness().open_session()
    written = 'Sure:\n```json\n{"steps": [{"goal": 7, "tools": "shop_look"}]}\n```'
    await shop.run_turn([written], build_tool_script(), ["Done."])
    assert shop.list_events(CallCompleted)[0].repairs == (
        "taken out of a block of code",
        "steps.0.goal: a number for a text",
        "steps.0.tools: one for a list",
    )


async def test_tool_that_was_not_offered_is_refused_with_a_message_to_the_model() -> None:
    shop = await AgentHarness().open_session()
    await shop.run_turn(
        build_plan_script(("Find a hammer.", ["shop_look"])),
        build_tool_script(("shop_pay", "{}"), ("nonsense", "{}"), ("shop_look", "not JSON")),
        build_tool_script(),
        ["Sorry."],
    )
    assert [each.outcome for each in shop.list_events(ToolReturned)] == ["refused"] * 3
    assert shop.shop.tool_calls == []
    assert "shop_pay {}\n  refused: no tool 'shop_pay' was offered" in shop.get_request_texts(2)[0]


async def test_tool_requests_over_the_batch_limit_are_counted_but_not_recorded() -> None:
    shop = await AgentHarness().open_session()
    many = build_tool_script(*[("shop_look", "{}")] * 600)
    await shop.run_turn(build_plan_script(("Look.", [])), many, ["Enough."])
    called, returned = shop.list_events(ToolCalled), shop.list_events(ToolReturned)
    assert (len(called), len(returned)) == (128, 128)
    assert len(shop.shop.tool_calls) == 16
    (answered,) = [each for each in shop.list_events(CallCompleted) if each.call == "1.2"]
    assert answered.repairs == ("472 more tools asked for, which are not recorded",)


async def test_answer_too_large_for_an_event_fails_its_turn_at_once() -> None:
    shop = await AgentHarness().open_session()
    huge = build_tool_script(("shop_look", json.dumps({"what": "x" * 1_000_000})))
    await shop.run_turn(build_plan_script(("Look.", [])), huge)
    (failed,) = shop.list_events(TurnFailed)
    assert failed.code == "too-large"
    assert [each.outcome for each in shop.list_events(AttemptEnded)] == ["answered", "failed"]


async def test_reply_too_large_for_an_event_fails_its_turn() -> None:
    shop = await AgentHarness().open_session()
    await shop.run_turn(build_plan_script(), ["x" * 1_100_000])
    (failed,) = shop.list_events(TurnFailed)
    assert failed.code == "too-large"


async def test_tool_requests_with_the_same_id_get_distinct_ids() -> None:
    shop = await AgentHarness().open_session()
    script = build_tool_script(
        ("shop_look", '{"what": "a"}'), ("shop_look", '{"what": "b"}'), named="t"
    )
    await shop.run_turn(build_plan_script(("Look.", [])), script, ["Both."])
    assert [each.id for each in shop.list_events(ToolCalled)] == ["t", "t#2"]
    assert [arguments["what"] for _, arguments in shop.shop.tool_calls] == ["a", "b"]


async def test_token_estimate_includes_tool_call_arguments() -> None:
    shop = await AgentHarness().open_session()
    tool_call = ModelToolCall("t", "shop_look", json.dumps({"what": "x" * 400}))
    await shop.run_turn(
        build_plan_script(("Look.", [])),
        [
            FinishedAnswer(
                finish_reason="tool_calls",
                tool_calls=(tool_call,),
                usage=None,
                model="puppet/one",
                response_id=None,
            )
        ],
        ["Looked."],
    )
    _, called, *_ = shop.list_events(AttemptEnded)
    assert (called.usage.known, called.usage.output_tokens) == ("estimated", 106)


async def test_tool_request_id_that_resembles_a_derived_id_gets_a_distinct_id() -> None:
    shop = await AgentHarness().open_session()
    ids = ("t#3", "t", "t")
    tool_calls = tuple(ModelToolCall(id, "shop_look", "{}") for id in ids)
    await shop.run_turn(
        build_plan_script(("Look.", [])),
        [
            FinishedAnswer(
                finish_reason="tool_calls",
                tool_calls=tool_calls,
                usage=USAGE,
                model="puppet/one",
                response_id=None,
            )
        ],
        ["All three."],
    )
    assert len({each.id for each in shop.list_events(ToolCalled)}) == len(ids)
    assert len(shop.shop.tool_calls) == len(ids)


async def test_long_result_enters_prompts_condensed_and_is_stored_whole() -> None:
    rows = [{"id": n, "name": f"thing {n}", "price": n * 1.5} for n in range(1_000)]
    shop = AgentHarness(FakeToolServer(result_text=str(rows).replace("'", '"')))
    await shop.open_session()
    await shop.run_turn(
        build_plan_script(("Look.", [])), build_tool_script(("shop_look", "{}")), ["Many."]
    )
    (returned,) = shop.list_events(ToolReturned)
    assert returned.treatment == "condensed"
    blob = await shop.house.blobs.get_blob(TENANT, returned.result)
    assert len(blob.decode()) == returned.characters == len(shop.shop.result_text)
    results = next(
        part
        for part in shop.list_events(ContextAssembled)[-1].manifest.parts
        if part.layer == "results"
    )
    assert results.tokens < 300
    assert "1000 rows with columns id, name, price" in shop.get_request_texts(2)[0]


async def test_failed_call_is_retried_without_repeating_earlier_calls() -> None:
    shop = await AgentHarness().open_session()
    plan, look, pay, reply = TWO_STEP_SCRIPTS
    await shop.run_turn(plan, [ModelFailure("server_error")], look, pay, reply)
    assert [each.call for each in shop.list_events(AttemptStarted)] == [
        *("1.1", "1.2", "1.2", "1.3", "1.4")
    ]
    assert len(shop.shop.tool_calls) == 2


async def test_claims_are_counted_per_call() -> None:
    shop = await AgentHarness().open_session()
    idle: list[list[ScriptStep]] = [["Nothing to do."] for _ in EIGHT]
    await shop.run_turn(build_plan_script(*EIGHT), *idle, ["Done."])
    assert shop.list_events(TurnFailed) == []
    assert len(shop.list_events(AttemptStarted)) == Policies().max_claims


async def test_cancelled_turn_records_an_outcome_for_each_tool() -> None:
    shop = await AgentHarness().open_session()
    shop.shop.during_call = lambda: shop.house.sessions.handle(TENANT, "s", CancelTurn(1), TESTER)
    shop.house.model.scripts = [
        build_plan_script(("Pay.", [])),
        build_tool_script(("shop_pay", "{}"), ("shop_look", "{}")),
    ]
    await shop.house.run_turn(await shop.house.submit_turn("Pay!"))
    assert [each.outcome for each in shop.list_events(ToolReturned)] == ["lost", "refused"]
    assert len(shop.shop.tool_calls) == 1


async def test_every_call_of_a_turn_can_be_reassembled() -> None:
    # By reference, by assembly and by the verifier: what a house holds is proven as the test ends
    shop = await AgentHarness().open_session()
    await shop.run_turn(*TWO_STEP_SCRIPTS)
    await shop.run_turn(*TWO_STEP_SCRIPTS, text="And a saw.")
    assert len(shop.list_events(ContextAssembled)) == 8
