"""U12: each component has its limit, and what was done about a limit is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.agent_programs.agent_service import AgentService, answer_with_plan, answer_with_text
from turnlog.projections.tools.tool_catalog import ToolOffer
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS

LIMITS = {
    "system_prompt": 1_000,
    "tools_context": 2_000,
    "history": 3_000,
    "rag_context": 1_000,
    "query": 1_000,
}
"""The limits of the description, which make a prompt of 8,000."""


def test_u12_shipped_components_have_the_documented_limits() -> None:
    file = Path(SHIPPED_BLUEPRINTS) / "uderia" / "blueprint.yaml"
    budget = YAML(typ="safe").load(file)["budget"]["window"]
    components = budget["components"]
    assert {name: components[name]["tokens"] for name in LIMITS} == LIMITS
    assert budget["tokens"] == sum(LIMITS.values()) == 8_000
    fixed = {name for name in LIMITS if components[name].get("fixed")}
    assert fixed == {"system_prompt", "query"}


@pytest.mark.asyncio(loop_scope="module")
async def test_u12_tools_over_their_limit_are_listed_by_name_and_the_step_is_recorded(
    platform: AgentService,
) -> None:
    wordy = "Tells of the tide and of the wind at one of the many piers of this harbour. " * 4
    platform.shop.extra_offers = tuple(
        ToolOffer(tool=f"pier_{n}", description=wordy, schema={"type": "object", "properties": {}})
        for n in range(40)
    )
    session = await platform.open_shipped_session("uderia", attributes={}, profile="tool_enabled")
    await platform.complete_turn(
        session, answer_with_plan(), answer_with_text("It is calm."), text="How is the tide?"
    )
    manifest = (await platform.fetch_prompt(session, "1.1"))["manifest"]
    assert manifest["budget"] == 8_000
    (step,) = manifest["steps"]
    assert (step["step"], step["component"]) == ("condense_tools", "tools_context")
    assert step["before"] > 2_000 >= step["after"]
    tokens = sum(
        each["tokens"] for each in manifest["parts"] if each["component"] == "tools_context"
    )
    assert tokens == step["after"]
    listed = platform.get_request_texts(0)[0]
    assert "- harbour_pier_39" in listed
    assert wordy[:40] not in listed
