"""What the server of a model takes is found out by small questions, and written as a dialect."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support.servers.model_behaviours import ModelBehaviour, ModelRefusal
from tests.support.servers.openai_server import OpenAIServer
from tests.support.sessions.role_orders import find_role_fault
from turnlog.services.model_facts.dialects_file import ToolNameSpec, load_dialects_file
from turnlog.services.worker.model.direct_model import DirectModel
from turnlog.services.worker.model.model_check import (
    QUESTION_COUNT,
    QuestionResult,
    check_model,
    describe_dialect,
)

MODEL = "openai/heron"


@pytest_asyncio.fixture
async def provider() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


async def ask_server(server: OpenAIServer) -> list[QuestionResult]:
    direct = DirectModel({"OPENAI_API_BASE": server.url, "OPENAI_API_KEY": "sk-of-nobody"})
    try:
        return [each async for each in check_model(MODEL, direct)]
    finally:
        await direct.close()


def refuse_odd(body: dict[str, Any]) -> ModelBehaviour | None:
    """Refuse what a server of Gemma's template with a small library refuses."""
    if fault := find_role_fault(body["messages"], "alternating"):
        return ModelRefusal(status=500, message=fault)
    if "image_url" in json.dumps(body["messages"]):
        return ModelRefusal(status=400, message="image input is not supported")
    if "$ref" in json.dumps(body.get("tools", [])):
        return ModelRefusal(status=400, message="unknown keyword")
    if "look" * 16 in json.dumps(body.get("tools", [])):
        return ModelRefusal(status=400, message="name is too long")
    if refused := {"seed", "reasoning_effort"} & body.keys():
        return ModelRefusal(status=422, message=f"unexpected {min(refused)}")
    return None


async def test_server_that_takes_everything_needs_no_dialect(provider: OpenAIServer) -> None:
    results = await ask_server(provider)
    assert {each.capability for each in results} == {"taken"}
    assert len(results) == len(provider.exchanges) == QUESTION_COUNT
    assert describe_dialect(results) == {"response_format": True, "images": True}
    limits = [each.body.get("max_completion_tokens") for each in provider.exchanges]
    assert limits.count(16) == QUESTION_COUNT - 2


async def test_each_refusal_is_a_field_of_the_dialect(provider: OpenAIServer) -> None:
    provider.choose_behaviour = refuse_odd
    results = await ask_server(provider)
    assert describe_dialect(results) == {
        "roles": "alternating",
        "tool_refs": "inline",
        "response_format": True,
        "images": False,
        "tool_names": {"length": 32},
        "refused_parameters": ["reasoning_effort", "seed"],
    }


@pytest.mark.parametrize(("taken_role", "place"), [("user", "user"), (None, "none")])
async def test_place_of_a_tools_pictures_and_names_of_tools_are_found(
    provider: OpenAIServer, taken_role: str | None, place: str
) -> None:
    def refuse_names_and_pictures(body: dict[str, Any]) -> ModelBehaviour | None:
        names = [each["function"]["name"] for each in body.get("tools", ())]
        if not all(re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,39}", name) for name in names):
            return ModelRefusal(status=400, message="a name of a tool is invalid")
        *_, last = body["messages"]
        has_picture = "image_url" in json.dumps(last["content"])
        if has_picture and len(body["messages"]) > 1 and last["role"] != taken_role:
            return ModelRefusal(status=400, message="no picture here")
        return None

    provider.choose_behaviour = refuse_names_and_pictures
    found = describe_dialect(await ask_server(provider))
    assert found["tool_pictures"] == place
    assert found["tool_names"] == {"characters": "word", "first": "letter", "length": 32}


async def test_server_that_wants_reasoning_beside_calls_is_found(provider: OpenAIServer) -> None:
    def refuse_bare_calls(body: dict[str, Any]) -> ModelBehaviour | None:
        called = [each for each in body["messages"] if each.get("tool_calls")]
        if all(each.get("reasoning_content") for each in called):
            return None
        return ModelRefusal(status=400, message="reasoning_content must be passed back")

    provider.choose_behaviour = refuse_bare_calls
    assert describe_dialect(await ask_server(provider))["call_reasoning"] == "required"


async def test_server_that_takes_no_call_at_all_wants_no_reasoning(provider: OpenAIServer) -> None:
    def refuse_calls(body: dict[str, Any]) -> ModelBehaviour | None:
        has_calls = any(each.get("tool_calls") for each in body["messages"])
        return ModelRefusal(status=400, message="no calls") if has_calls else None

    provider.choose_behaviour = refuse_calls
    assert "call_reasoning" not in describe_dialect(await ask_server(provider))


async def test_server_that_takes_one_system_message_is_told_from_one_of_alternating_roles(
    provider: OpenAIServer,
) -> None:
    def refuse_late(body: dict[str, Any]) -> ModelBehaviour | None:
        fault = find_role_fault(body["messages"], "system_first")
        return ModelRefusal(status=400, message=fault) if fault else None

    provider.choose_behaviour = refuse_late
    assert describe_dialect(await ask_server(provider))["roles"] == "system_first"


async def test_no_further_question_is_asked_where_the_plain_one_has_no_answer(
    provider: OpenAIServer,
) -> None:
    provider.choose_behaviour = lambda _: ModelRefusal(status=401, message="who are you")
    (plain,) = await ask_server(provider)
    assert (plain.capability, plain.code) == ("unknown", "unauthorised")
    assert len(provider.exchanges) == 1


async def run_check(provider: OpenAIServer, *options: str) -> tuple[int | None, str]:
    environment = {
        **os.environ,
        "OPENAI_API_BASE": provider.url,
        "OPENAI_API_KEY": "sk-of-nobody",
        "TURNLOG_MODEL_ADAPTER": "direct",
    }
    program = str(Path(sys.executable).with_name("turnlog"))
    process = await asyncio.create_subprocess_exec(
        *(program, "model", "check", MODEL, *options),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    return process.returncode, out.decode()


@pytest.mark.slow("the command is a process of its own")
async def test_command_prints_lines_that_a_file_of_dialects_takes(
    provider: OpenAIServer, tmp_path: Path
) -> None:
    provider.choose_behaviour = refuse_odd
    code, printed = await run_check(provider)
    assert code == 0
    assert "✗ two messages of the user in a row" in printed
    _, _, lines = printed.partition("for the file of dialects:\n")
    file = tmp_path / "dialects.yaml"
    file.write_text(lines)
    dialect = load_dialects_file(file)[MODEL]
    assert (dialect.roles, dialect.images, dialect.tool_refs) == ("alternating", False, "inline")
    assert dialect.tool_names == ToolNameSpec(length=32)


@pytest.mark.slow("the command is a process of its own")
async def test_command_fails_where_a_question_has_no_clear_answer(provider: OpenAIServer) -> None:
    provider.choose_behaviour = lambda body: ModelRefusal(status=429) if "seed" in body else None
    code, printed = await run_check(provider, "-o", "json")
    assert code == 1
    found = {each["name"]: each for each in json.loads(printed)["results"]}
    assert (found["seed"]["capability"], found["seed"]["code"]) == ("unknown", "rate_limited")
    assert found["top_p"]["capability"] == "taken"
