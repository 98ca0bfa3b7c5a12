"""Which models take the schema of an answer: litellm's table, and the setting before it."""

from __future__ import annotations

import pytest

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.schema.call_specs import CallSpec
from turnlog.services.cli.environment import read_settings
from turnlog.services.model_facts.model_prices import read_shipped_table
from turnlog.services.model_facts.response_formats import ResponseFormats
from turnlog.services.platform.process_settings import GatewaySettings, WorkerSettings

CALL = CallSpec.model_validate(
    {"messages": [{"user": ["input"]}], "output": {"schema": {"type": "object"}}}
)

LITELLM = read_shipped_table().version.replace("-", " ", 1)


async def choose_way(model: str, **own: bool) -> tuple[str, str]:
    named = {name.replace("__", "/"): takes for name, takes in own.items()}
    request = await ResponseFormats(named).choose_request(CALL, model)
    assert request is not None
    return request.by, request.because


@pytest.mark.parametrize(
    "model",
    [
        *("openai/gpt-4o-mini", "gpt-4o-mini", "azure/gpt-4o-mini", "gemini/gemini-2.5-flash"),
        *("vertex_ai/gemini-2.5-flash", "mistral/mistral-large-latest", "xai/grok-4.3"),
        "anthropic/claude-haiku-4-5",
    ],
)
async def test_model_in_litellm_table_uses_response_format(model: str) -> None:
    assert await choose_way(model) == (
        "response_format",
        f"{LITELLM} says that the model takes it",
    )


@pytest.mark.parametrize(
    "model",
    [
        *("openai/heron", "heron", "scripted/demo", "ollama/llama3", "anthropic/claude-3-haiku"),
        *("groq/openai/gpt-oss-20b", "bedrock/anthropic.claude-3-5-haiku-20241022-v1:0"),
    ],
)
async def test_unknown_or_emulating_model_gets_the_schema_in_its_prompt(model: str) -> None:
    assert await choose_way(model) == (
        "prompt",
        f"{LITELLM} does not say that the model takes it",
    )


async def test_response_format_setting_overrides_the_litellm_table() -> None:
    assert await choose_way("openai/heron", openai__heron=True) == (
        "response_format",
        "TURNLOG_RESPONSE_FORMAT says that the model takes it",
    )
    assert await choose_way("gpt-4o-mini", **{"gpt-4o-mini": False}) == (
        "prompt",
        "TURNLOG_RESPONSE_FORMAT says that the model does not take it",
    )


@pytest.mark.parametrize("kind", [GatewaySettings, WorkerSettings])
def test_response_format_setting_maps_models_to_yes_or_no(
    kind: type[GatewaySettings | WorkerSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    written = "openai/heron=yes, bedrock/arn:aws:x/y=1=no"
    monkeypatch.setenv("TURNLOG_RESPONSE_FORMAT", written)
    read = read_settings(kind, {}).response_format
    assert read == {"openai/heron": True, "bedrock/arn:aws:x/y=1": False}


@pytest.mark.parametrize("written", ["openai/heron", "openai/heron=maybe", "=yes"])
def test_response_format_setting_without_yes_or_no_is_refused(
    written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNLOG_RESPONSE_FORMAT", written)
    with pytest.raises(Refused, match="models with `=yes` or `=no`") as refused:
        read_settings(GatewaySettings, {})
    assert refused.value.field == "TURNLOG_RESPONSE_FORMAT"
