"""What is left out of the reasoning that is sent back within a turn, and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.agent_programs.agent_harness import AgentHarness, build_tool_script, open_loop
from tests.support.sessions.puppet_model import ScriptStep
from tests.support.sessions.reproduction_checks import (
    MEMORY_LOGS,
    find_unreproducible_calls,
    get_verification_means,
)
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.manifest import BlueprintTextSource, PromptPart, RequestDialect
from turnlog.projections.audit.record.session_replay import SessionReplay
from turnlog.projections.prompt.assemble import assemble, plan_prompt
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt
from turnlog.projections.prompt.planned_reasoning import BLANK_REASONING, BLANK_RULE
from turnlog.projections.prompt.request_dialect import PLAIN_DIALECT
from turnlog.services.model_facts.model_dialects import ModelDialects
from turnlog.services.worker.model.model_types import ReasoningDelta

THOUGHT = "The secret is to look."


def think(*then: ScriptStep) -> list[ScriptStep]:
    return [ReasoningDelta({"reasoning_content": THOUGHT}, THOUGHT), *then]


def list_reasoning(prompt: AssembledPrompt | ContextAssembled) -> list[PromptPart]:
    return [part for part in prompt.manifest.parts if part.layer == "reasoning"]


DEMANDING = PLAIN_DIALECT.model_copy(update={"call_reasoning": "required"})
"""The dialect of a server that refuses tool calls without what was reasoned before them."""


def assemble_for_model(
    shop: AgentHarness, call: str, model: str, dialect: RequestDialect = PLAIN_DIALECT
) -> AssembledPrompt:
    """Assemble a call on record as it would have been for another model."""
    blobs = {digest: raw.decode() for (_, digest), raw in shop.house.blobs.blobs.items()}
    replay = SessionReplay(blobs=blobs, installed=get_verification_means().installed)
    for recorded in shop.house.list_events():
        inputs = replay.rebuild_inputs(recorded)
        if inputs and inputs.call.call == call:
            asked = replace(inputs.call_request, model=model, dialect=dialect)
            return assemble(plan_prompt(inputs.material, inputs.state, asked), inputs.texts)
        replay.apply_event(recorded)
    raise AssertionError(f"there is no call {call}")


async def test_reasoning_is_sent_back_to_the_model_that_wrote_it_and_to_no_other() -> None:
    shop = await open_loop()
    await shop.run_turn(think(*build_tool_script(("shop_look", "{}"))), ["Three."])
    same = assemble_for_model(shop, "1.2", "puppet/one")
    assert [(part.treatment, part.rule) for part in list_reasoning(same)] == [("kept", None)]
    assert THOUGHT in same.request.messages[-2].reasoning
    other = assemble_for_model(shop, "1.2", "puppet/two")
    (part,) = list_reasoning(other)
    assert (part.treatment, part.rule, part.role, part.tokens) == (
        *("dropped", "of another model", None, 0),
    )
    assert other.request.messages[-2].reasoning == ""


async def test_reasoning_that_a_rule_forbids_is_not_sent_back() -> None:
    rules = [{"name": "secrets", "pattern": "secret"}]
    shop = await open_loop(policies={"safety": {"rules": rules}})
    await shop.run_turn(think(*build_tool_script(("shop_look", "{}"))), ["Three."])
    (part,) = list_reasoning(shop.list_events(ContextAssembled)[-1])
    assert (part.treatment, part.rule) == ("dropped", "not recorded whole")
    assert THOUGHT not in str(shop.house.model.requests[-1].messages)


@pytest.mark.parametrize("model", ["puppet/one", "puppet/two"])
async def test_server_that_wants_reasoning_gets_a_blank_where_there_is_none_to_send(
    model: str,
) -> None:
    shop = await open_loop()
    rounds = (
        think(*build_tool_script(("shop_look", "{}"))),
        build_tool_script(("shop_look", "{}")),
    )
    await shop.run_turn(*rounds, ["Three."])
    plain = assemble_for_model(shop, "1.3", model)
    prompt = assemble_for_model(shop, "1.3", model, DEMANDING)
    called = [each for each in prompt.request.messages if each.tool_calls]
    is_writer = model == "puppet/one"
    assert [BLANK_REASONING in each.reasoning for each in called] == [not is_writer, True]
    assert called[1].encode_plain()["reasoning_content"] == " "
    blanks = [each for each in list_reasoning(prompt) if each.rule == BLANK_RULE]
    assert [each.source for each in blanks] == [BlueprintTextSource(text=BLANK_REASONING)] * (
        1 if is_writer else 2
    )
    added = sum(each.tokens for each in blanks)
    assert prompt.manifest.tokens == plain.manifest.tokens + added > plain.manifest.tokens


@pytest.mark.parametrize("forbidden", ["secret", "nothing"])
async def test_blank_stands_for_what_a_rule_forbids_and_for_what_was_not_reasoned(
    forbidden: str, tmp_path: Path
) -> None:
    rules = [{"name": "secrets", "pattern": forbidden}]
    shop = await open_loop(policies={"safety": {"rules": rules}})
    file = tmp_path / "dialects.yaml"
    file.write_text("puppet/*: {call_reasoning: required}\n")
    shop.house.dialects = ModelDialects(file)
    looked = build_tool_script(("shop_look", "{}"))
    await shop.run_turn(think(*looked), looked, ["Three."])
    sent = [
        each["reasoning_content"]
        for each in shop.house.model.requests[-1].messages
        if each.get("tool_calls")
    ]
    assert sent == [" " if forbidden == "secret" else THOUGHT, " "]
    log = MEMORY_LOGS.logs[-1]
    assert not find_unreproducible_calls(log[0].stored, log[1].blobs)
