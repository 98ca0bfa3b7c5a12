"""What a file of dialects changes in requests with tools, and a model server that insists on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.agent_programs.agent_harness import build_loop_blueprint
from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.support.servers.model_behaviours import ModelRefusal
from turnlog.projections.tools.tool_catalog import ToolOffer
from turnlog.services.model_facts.model_dialects import ModelDialects

pytestmark = pytest.mark.asyncio(loop_scope="module")

DIALECTS = """
openai/heron:
  roles: alternating
  tool_refs: inline
  parallel_tool_calls: false
  cache_marks: anthropic
  refused_parameters: [temperature, seed]
"""

PLACE: dict[str, Any] = {"type": "object", "properties": {"port": {"type": "string"}}}

REFERRING_TOOL = ToolOffer(
    tool="find",
    description="Finds a ship.",
    schema={
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/Place"}},
        "$defs": {"Place": PLACE},
    },
)

PARAMETERS = {"temperature": 0.5, "top_p": 0.9}


def refuse_unknown(body: dict[str, Any]) -> ModelRefusal | None:
    """Refuse what the server of the dialect does not take."""
    if "$ref" in str(body.get("tools")):
        return ModelRefusal(status=400, message="Unsupported schema keyword: $ref")
    if refused := {"temperature", "seed"} & body.keys():
        return ModelRefusal(status=400, message=f"Unsupported parameter: {min(refused)}")
    if body.get("tools") and body.get("parallel_tool_calls") is not False:
        return ModelRefusal(status=400, message="parallel tool calls are not supported")
    return None


@pytest_asyncio.fixture(loop_scope="module")
async def dialect_service(platform: AgentService, tmp_path: Path) -> AsyncIterator[AgentService]:
    """The service with a file of dialects, and a server that refuses all other requests."""
    file = tmp_path / "dialects.yaml"
    file.write_text(DIALECTS)
    worker, contexts = platform.worker, platform.worker.contexts
    inputs = replace(contexts.prompt_inputs, dialects=ModelDialects(file))
    worker.contexts = replace(contexts, prompt_inputs=inputs)
    platform.provider.choose_behaviour = refuse_unknown
    platform.shop.extra_offers = (REFERRING_TOOL,)
    yield platform
    worker.contexts = contexts


async def test_schemas_and_parameters_are_sent_as_the_server_takes_them(
    dialect_service: AgentService,
) -> None:
    blueprint = build_loop_blueprint()
    call = blueprint.calls["converse"].model_copy(update={"parameters": PARAMETERS})
    blueprint = blueprint.model_copy(update={"calls": {"converse": call}})
    session = await dialect_service.open_session(blueprint)
    await dialect_service.complete_turn(
        session,
        answer_with_tool_calls(("shop_find", {"at": {"port": "Holm"}})),
        answer_with_text("It is in Holm."),
    )
    assert dialect_service.shop.tool_calls == [("find", {"at": {"port": "Holm"}})]
    for body in dialect_service.bodies:
        (found,) = [each for each in body["tools"] if each["function"]["name"] == "shop_find"]
        assert found["function"]["parameters"]["properties"] == {"at": PLACE}
        assert body["top_p"] == 0.9
    prompt = await dialect_service.fetch_prompt(session, "1.2")
    dialect = prompt["manifest"]["dialect"]
    expected = {
        "rendering": 1,
        "roles": "alternating",
        "tool_refs": "inline",
        "parallel_tool_calls": False,
        "cache_marks": "anthropic",
        "refused_parameters": ["seed", "temperature"],
    }
    assert {name: dialect[name] for name in expected} == expected
    roles = [each["role"] for each in prompt["messages"]]
    assert [roles[place] for place in prompt["manifest"]["cache_marks"]] == ["system", "tool"]
    assert prompt["parameters"] == {"parallel_tool_calls": False, "top_p": 0.9}
    assert prompt["assembly"]["outcome"] == "reproduced"


async def test_call_on_record_keeps_its_dialect_when_the_file_changes(
    dialect_service: AgentService,
) -> None:
    session = await dialect_service.open_session(build_loop_blueprint())
    await dialect_service.complete_turn(session, answer_with_text("Yes."))
    worker, contexts = dialect_service.worker, dialect_service.worker.contexts
    inputs = replace(contexts.prompt_inputs, dialects=ModelDialects())
    worker.contexts = replace(contexts, prompt_inputs=inputs)
    dialect_service.provider.choose_behaviour = None
    await dialect_service.complete_turn(session, answer_with_text("Still yes."))
    first = await dialect_service.fetch_prompt(session, "1.1")
    second = await dialect_service.fetch_prompt(session, "2.1")
    assert first["manifest"]["dialect"]["roles"] == "alternating"
    assert second["manifest"].get("dialect") is None
    assert first["assembly"]["outcome"] == second["assembly"]["outcome"] == "reproduced"
