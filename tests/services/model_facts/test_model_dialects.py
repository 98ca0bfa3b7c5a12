"""What the server of a model takes: the shipped table, litellm's, and a file of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.schema.call_specs import CallSpec
from turnlog.projections.prompt.request_dialect import PLAIN_DIALECT
from turnlog.services.model_facts.dialects_file import (
    DIALECTS_VARIABLE,
    FaultyDialectsFile,
    ModelDialect,
    load_dialects_file,
)
from turnlog.services.model_facts.model_dialects import ModelDialects
from turnlog.services.model_facts.response_formats import ResponseFormats

ASKING_CALL = CallSpec.model_validate(
    {"messages": [{"user": ["input"]}], "output": {"schema": {"type": "object"}}}
)


def write_dialects(folder: Path, text: str) -> Path:
    file = folder / "dialects.yaml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("model", "roles"),
    [
        ("openai/heron", "anywhere"),
        ("openai/gpt-5-mini", "anywhere"),
        ("anthropic/claude-sonnet-4-5", "anywhere"),
        ("hosted_vllm/Qwen/Qwen3-8B", "system_first"),
        ("ollama/gemma3:27b", "alternating"),
        ("hosted_vllm/mistralai/Mistral-7B-Instruct-v0.3", "alternating"),
        ("mistral/mistral-large-latest", "system_first"),
        ("deepseek/deepseek-reasoner", "alternating"),
        ("deepseek/deepseek-chat", "anywhere"),
    ],
)
async def test_order_of_roles_follows_from_the_name_of_the_model(model: str, roles: str) -> None:
    dialect = await ModelDialects().find_dialect(model)
    assert dialect.roles == roles


async def test_requests_for_a_model_in_no_table_are_written_as_the_blueprint_has_them() -> None:
    dialect = await ModelDialects().find_dialect("openai/heron")
    assert dialect.build_request_dialect() == PLAIN_DIALECT


@pytest.mark.parametrize(
    ("model", "images", "place"),
    [
        ("openai/gpt-4o", True, "user"),
        ("openai/o4-mini", True, "user"),
        ("azure/our-deployment", None, "user"),
        ("openai/heron", None, "result"),
        ("anthropic/claude-sonnet-4-5", True, "result"),
        ("deepseek/deepseek-chat", False, "result"),
        ("hosted_vllm/deepseek-ai/deepseek-vl2", True, "result"),
        ("mistral/mistral-medium-latest", True, "none"),
        ("openai/qwen3-8b", False, "result"),
        ("ollama_chat/qwen3:8b", False, "result"),
        ("hosted_vllm/Qwen/Qwen3-VL-8B-Instruct", None, "result"),
    ],
)
async def test_pictures_of_tools_are_where_the_server_of_the_model_takes_them(
    model: str, *, images: bool | None, place: str
) -> None:
    dialect = await ModelDialects().find_dialect(model)
    assert (dialect.images, dialect.tool_pictures) == (images, place)


@pytest.mark.parametrize(
    ("model", "call_reasoning"),
    [
        ("deepseek/deepseek-v4-pro", "required"),
        ("deepseek/deepseek-chat", "required"),
        ("openai/deepseek-v4-flash", "required"),
        ("openrouter/deepseek/deepseek-v4-pro", "required"),
        ("hosted_vllm/deepseek-ai/DeepSeek-V4-Flash", "required"),
        ("groq/deepseek-r1-distill-llama-70b", "optional"),
        ("openai/heron", "optional"),
    ],
)
async def test_calls_without_reasoning_are_known_to_be_refused_by_deepseek(
    model: str, call_reasoning: str
) -> None:
    dialect = await ModelDialects().find_dialect(model)
    assert dialect.build_request_dialect().call_reasoning == call_reasoning


@pytest.mark.parametrize("model", ["ollama/qwen3:8b", "ollama_chat/llama3.2"])
async def test_references_of_tools_are_written_out_for_ollama(model: str) -> None:
    dialect = await ModelDialects().find_dialect(model)
    assert dialect.tool_refs == "inline"


@pytest.mark.parametrize(
    ("model", "files", "audio"),
    [
        ("anthropic/claude-sonnet-4-5", True, False),
        ("bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0", True, False),
        ("openai/gpt-5-mini", True, False),
        ("openai/gpt-audio", None, True),
        ("openai/responses/gpt-5-mini", True, False),
        ("gemini/gemini-2.5-flash", True, True),
        ("mistral/mistral-medium-latest", False, False),
        ("mistral/voxtral-small-latest", False, True),
        ("deepseek/deepseek-chat", False, False),
        ("openai/qwen3-8b", False, False),
        ("hosted_vllm/Qwen/Qwen2.5-Omni-7B", False, True),
        ("openrouter/qwen/qwen3-8b", True, False),
        ("ollama_chat/llama3.2-vision", False, False),
        ("openai/heron", None, None),
    ],
)
async def test_files_and_recordings_are_sent_to_models_that_may_read_them(
    model: str, *, files: bool | None, audio: bool | None
) -> None:
    dialect = await ModelDialects().find_dialect(model)
    assert (dialect.files, dialect.audio) == (files, audio)


async def test_size_and_media_of_a_model_are_those_that_litellm_knows() -> None:
    known = await ModelDialects().find_dialect("openai/gpt-5-mini")
    assert known.context_tokens == 272_000
    assert (known.images, known.files) == (True, True)
    unknown = await ModelDialects().find_dialect("openai/heron")
    assert unknown == ModelDialect()


async def test_file_of_ones_own_decides_each_field_that_it_has(tmp_path: Path) -> None:
    file = write_dialects(
        tmp_path,
        '"openai/*": {context_tokens: 8192, refused_parameters: [top_p, seed]}\n'
        '"*qwen*": {roles: anywhere}\n'
        '"openai/qwen3": {images: false, context_tokens: 4096}\n',
    )
    dialects = ModelDialects(file)
    plain = await dialects.find_dialect("openai/gpt-5-mini")
    assert (plain.context_tokens, plain.images) == (8_192, True)
    longest = await dialects.find_dialect("openai/qwen3")
    assert (longest.context_tokens, longest.images, longest.roles) == (4_096, False, "anywhere")
    recorded = longest.build_request_dialect()
    assert recorded is not None
    assert recorded.refused_parameters == ("seed", "top_p")


async def test_dialect_says_whether_a_model_takes_response_format(tmp_path: Path) -> None:
    file = write_dialects(tmp_path, "openai/heron: {response_format: true}\n")
    formats = ResponseFormats(None, ModelDialects(file))
    chosen = await formats.choose_request(ASKING_CALL, "openai/heron")
    assert chosen is not None
    assert chosen.by == "response_format"
    assert chosen.because == "its dialect says that the model takes it"
    setting_first = ResponseFormats({"openai/heron": False}, ModelDialects(file))
    refused = await setting_first.choose_request(ASKING_CALL, "openai/heron")
    assert refused is not None
    assert refused.by == "prompt"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a:\n  roles: first\n", "dialects.yaml:2: a.roles: `first` means nothing here"),
        ("a: {rols: anywhere}\n", "a.rols: `rols` means nothing here; write `roles`"),
        ("a: {context_tokens: '8'}\n", "write a whole number, without quotes"),
        ("a: {refused_parameters: [tempo]}\n", "max_completion_tokens, max_tokens"),
        ("a: {images: 'yes'}\n", "a.images: it must be a valid boolean"),
        ("- a\n", "it must be an object"),
        ("a: {roles: [\n", "dialects.yaml:2"),
    ],
)
def test_faulty_file_is_refused_with_line_field_and_fix(
    tmp_path: Path, text: str, fault: str
) -> None:
    file = write_dialects(tmp_path, text)
    with pytest.raises(FaultyDialectsFile) as refused:
        ModelDialects(file)
    assert fault in refused.value.detail
    assert (refused.value.field, refused.value.code) == (DIALECTS_VARIABLE, "bad-setting")


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="No such file"):
        load_dialects_file(tmp_path / "none.yaml")
