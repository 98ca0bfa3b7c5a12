"""What a file of dialects changes in requests with tools, and a model server that insists on it."""

from __future__ import annotations

import re
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
from tests.support.servers.model_behaviours import ModelBehaviour, ModelRefusal
from turnlog.events.model.manifest import RequestDialect, ToolNameRule
from turnlog.events.model.tool_events import ToolCalled, ToolsSnapshotted
from turnlog.projections.prompt.request_dialect import RENDERING_VERSION
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
        "rendering": RENDERING_VERSION,
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


LONG_NAMED = tuple(
    ToolOffer(tool=tool, description="Answers.", schema=PLACE)
    for tool in ("2.find.the.ship.of.a.name", "2/find/the/ship/of/a/name", "sail")
)

NAMES = """
openai/heron:
  tool_names: {characters: word, first: letter, length: 20}
openai/egret:
  tool_names: {characters: dotted, length: 64}
"""

TAKEN_NAMES = {"openai/heron": r"[A-Za-z_]\w{0,19}", "openai/egret": r"[\w.-]{1,64}"}


@pytest.mark.parametrize("model", TAKEN_NAMES)
async def test_names_of_tools_are_those_that_the_server_takes_and_the_log_has_their_own(
    platform: AgentService, tmp_path: Path, model: str
) -> None:
    file = tmp_path / "names.yaml"
    file.write_text(NAMES)
    worker, contexts = platform.worker, platform.worker.contexts
    inputs = replace(contexts.prompt_inputs, dialects=ModelDialects(file))
    worker.contexts = replace(contexts, prompt_inputs=inputs, default_model=model)
    platform.shop.extra_offers = LONG_NAMED
    own = [f"shop_{each.tool}" for each in LONG_NAMED]
    sent: list[str] = []

    def call_offered(body: dict[str, Any]) -> ModelBehaviour | None:
        names = [each["function"]["name"] for each in body["tools"]]
        called = [
            each["function"]["name"]
            for message in body["messages"]
            for each in message.get("tool_calls", ())
        ]
        if not all(re.fullmatch(TAKEN_NAMES[model], name) for name in (*names, *called)):
            return ModelRefusal(status=400, message="Invalid function name")
        if called:
            return answer_with_text("Found.")
        sent[:] = names[-3:]
        return answer_with_tool_calls(*((name, {"port": "Holm"}) for name in sent))

    platform.provider.choose_behaviour = call_offered
    session = await platform.open_session(build_loop_blueprint())
    await platform.complete_turn(session)
    worker.contexts = contexts
    assert [tool for tool, _ in platform.shop.tool_calls] == [each.tool for each in LONG_NAMED]
    assert [each.tool for each in await platform.load_events(session, ToolCalled)] == own
    again = platform.bodies[-1]["messages"][-4]["tool_calls"]
    assert [each["function"]["name"] for each in again] == sent
    assert len(set(sent)) == 3
    if model == "openai/egret":
        assert (sent[0], sent[2]) == (own[0], own[2])
    prompt = await platform.fetch_prompt(session, "1.2")
    assert prompt["reference"]["outcome"] == prompt["assembly"]["outcome"] == "reproduced"
    parts = [each for each in prompt["manifest"]["parts"] if each.get("role") == "tools"]
    renamed = {each["layer"]: each["name"] for each in parts if each.get("name")}
    expected = [0, 1] if model == "openai/heron" else [0]
    assert renamed == {own[place]: sent[place] for place in expected}


FERRY = ToolOffer(tool="2.ferry.between.islands", description="Books a ferry.", schema=PLACE)

SHORT_NAMES = "openai/heron: {tool_names: {characters: word, length: 16}}\n"


class FormerDialects(ModelDialects):
    """Dialects as they were recorded before names of tools were chosen in `tool_choice` too."""

    async def find_request_dialect(self, model: str) -> RequestDialect:
        dialect = await super().find_request_dialect(model)
        names = ToolNameRule(characters="word", length=16)
        return dialect.model_copy(update={"tool_names": names})


async def force_ferry(platform: AgentService, dialects: ModelDialects, named: str) -> str:
    """Complete a turn whose call must use one tool, and return its session."""
    worker, contexts = platform.worker, platform.worker.contexts
    inputs = replace(contexts.prompt_inputs, dialects=dialects)
    worker.contexts = replace(contexts, prompt_inputs=inputs, default_model="openai/heron")
    platform.shop.extra_offers = (FERRY,)
    blueprint = build_loop_blueprint()
    choice = {"type": "function", "function": {"name": named}}
    changes = {"parameters": {"tool_choice": choice}}
    call = blueprint.calls["converse"].model_copy(update=changes)
    blueprint = blueprint.model_copy(update={"calls": {"converse": call}})
    session = await platform.open_session(blueprint)
    await platform.complete_turn(session, answer_with_text("Booked."))
    worker.contexts = contexts
    return session


@pytest.mark.parametrize("named", ["shop_2.ferry.between.islands", "shop_2_ferry_between_islands"])
async def test_forced_tool_reaches_the_server_by_the_name_under_which_it_is_offered(
    platform: AgentService, tmp_path: Path, named: str
) -> None:
    file = tmp_path / "names.yaml"
    file.write_text(SHORT_NAMES)
    session = await force_ferry(platform, ModelDialects(file), named)
    body = platform.bodies[-1]
    chosen = body["tool_choice"]["function"]["name"]
    assert re.fullmatch(r"\w{1,16}", chosen)
    assert chosen in {each["function"]["name"] for each in body["tools"]}
    prompt = await platform.fetch_prompt(session, "1.1")
    assert prompt["parameters"]["tool_choice"] == body["tool_choice"]
    assert prompt["reference"]["outcome"] == prompt["assembly"]["outcome"] == "reproduced"


async def test_forced_tool_on_record_keeps_the_name_that_it_was_sent_by(
    platform: AgentService, tmp_path: Path
) -> None:
    file = tmp_path / "names.yaml"
    file.write_text(SHORT_NAMES)
    named = "shop_2_ferry_between_islands"
    session = await force_ferry(platform, FormerDialects(file), named)
    assert platform.bodies[-1]["tool_choice"]["function"]["name"] == named
    prompt = await platform.fetch_prompt(session, "1.1")
    assert prompt["reference"]["outcome"] == prompt["assembly"]["outcome"] == "reproduced"


@pytest.mark.parametrize(("stated", "kept"), [(None, 6), (4_000, 5)])
async def test_prompt_is_no_longer_than_the_context_that_the_file_states(
    platform: AgentService, tmp_path: Path, stated: int | None, kept: int
) -> None:
    file = tmp_path / "size.yaml"
    file.write_text(f"openai/heron: {{context_tokens: {stated}}}\n" if stated else "")
    worker, contexts = platform.worker, platform.worker.contexts
    inputs = replace(contexts.prompt_inputs, dialects=ModelDialects(file))
    worker.contexts = replace(contexts, prompt_inputs=inputs)
    session = await platform.open_session(build_loop_blueprint())
    for number in range(6):
        await platform.complete_turn(session, answer_with_text("Yes."), text=f"{number} " * 1500)
    worker.contexts = contexts
    asked = [each for each in platform.bodies[-1]["messages"] if each["role"] == "user"]
    assert len(asked) == kept
    manifest = (await platform.fetch_prompt(session, "6.1"))["manifest"]
    assert manifest.get("budget") == stated
    assert manifest.get("lowered_by") is None


async def test_tool_that_is_larger_than_the_context_of_the_model_is_left_out(
    dialect_service: AgentService, tmp_path: Path
) -> None:
    file = tmp_path / "small.yaml"
    file.write_text("openai/heron:\n  context_tokens: 2000\n")
    worker = dialect_service.worker
    inputs = replace(worker.contexts.prompt_inputs, dialects=ModelDialects(file))
    worker.contexts = replace(worker.contexts, prompt_inputs=inputs)
    dialect_service.provider.choose_behaviour = None
    large = ToolOffer(tool="vast", description="Answers. " * 440, schema=build_vast_schema())
    dialect_service.shop.extra_offers = (large,)
    session = await dialect_service.open_session(build_loop_blueprint())
    await dialect_service.complete_turn(session, answer_with_text("Yes."))
    (pinned,) = await dialect_service.load_events(session, ToolsSnapshotted)
    assert "and a call has room for 2000" in pinned.left_out["shop_vast"]
    assert "shop_look" in pinned.tools


def build_vast_schema() -> dict[str, Any]:
    """Return a schema of about 8,000 characters."""
    place = {**PLACE, "description": "A place. " * 8}
    return {"type": "object", "properties": {f"field_{number}": place for number in range(60)}}
