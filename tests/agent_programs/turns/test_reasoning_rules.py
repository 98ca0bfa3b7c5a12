"""What is left out of the reasoning that is sent back within a turn, and why."""

from __future__ import annotations

from dataclasses import replace

from tests.agent_programs.agent_harness import AgentHarness, build_tool_script, open_loop
from tests.support.sessions.puppet_model import ScriptStep
from tests.support.sessions.reproduction_checks import get_verification_means
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.manifest import PromptPart
from turnlog.projections.audit.record.session_replay import SessionReplay
from turnlog.projections.prompt.assemble import assemble, plan_prompt
from turnlog.projections.prompt.assembly_inputs import AssembledPrompt
from turnlog.services.worker.model.model_types import ReasoningDelta

THOUGHT = "The secret is to look."


def think(*then: ScriptStep) -> list[ScriptStep]:
    return [ReasoningDelta({"reasoning_content": THOUGHT}, THOUGHT), *then]


def list_reasoning(prompt: AssembledPrompt | ContextAssembled) -> list[PromptPart]:
    return [part for part in prompt.manifest.parts if part.layer == "reasoning"]


def assemble_for_model(shop: AgentHarness, call: str, model: str) -> AssembledPrompt:
    """Assemble a call on record as it would have been for another model."""
    blobs = {digest: raw.decode() for (_, digest), raw in shop.house.blobs.blobs.items()}
    replay = SessionReplay(blobs=blobs, installed=get_verification_means().installed)
    for recorded in shop.house.list_events():
        inputs = replay.rebuild_inputs(recorded)
        if inputs and inputs.call.call == call:
            asked = replace(inputs.call_request, model=model)
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
