"""Servers of open models that speak OpenAI's chat protocol: vLLM, and llama.cpp with a template.

Sources: vLLM's page *OpenAI-compatible server* (its further members of messages and its types of
content parts), and the chat template that Qwen publishes beside its models, whose rules are below.
"""

from __future__ import annotations

from typing import Any, Final

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

from tests.support.providers.openai_chat_fake import (
    check_media_bytes,
    check_results_follow_calls,
    check_tool_names,
    count_chat_rounds,
    list_pieces,
    write_chat_answer,
)
from tests.support.providers.provider_dialogue import (
    ANSWERS,
    Body,
    ProviderFake,
    ScriptedAnswer,
    UnacceptableRequest,
    require,
)
from tests.support.providers.published_schema import check_typed_dict
from tests.support.servers.model_behaviours import RawFrames

_REASONING_FIELDS: Final = ("reasoning", "reasoning_content")
"""The members of an assistant's message that these servers take beside OpenAI's."""


def check_chat_schema(body: Body) -> None:
    """Refuse what OpenAI's schema lacks, but for thoughts and for pictures of a tool's result."""
    messages = list(map(_leave_out_extensions, body["messages"]))
    check_typed_dict(CompletionCreateParamsStreaming, {**body, "messages": messages})
    check_tool_names(body)
    check_media_bytes(body["messages"])
    check_results_follow_calls(body["messages"])


def _leave_out_extensions(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message without what these servers take beside OpenAI's schema."""
    match message:
        case {"role": "assistant"}:
            return {name: message[name] for name in message if name not in _REASONING_FIELDS}
        case {"role": "tool", "content": [*pieces]}:
            return {**message, "content": [each for each in pieces if each["type"] == "text"]}
        case _:
            return message


QWEN_TEMPLATE: Final = """
{%- macro render_content(content) %}
  {%- if content is string %}{{- content }}
  {%- elif content is iterable and content is not mapping %}
    {%- for item in content %}
      {%- if 'text' in item %}{{- item.text }}
      {%- elif item.type == 'image_url' and sees %}<|vision_start|><|image_pad|><|vision_end|>
      {%- elif item.type == 'input_audio' and hears %}<|audio_start|><|audio_pad|><|audio_end|>
      {%- else %}{{- raise_exception('Unexpected item type in content.') }}{%- endif %}
    {%- endfor %}
  {%- elif content is none %}
  {%- else %}{{- raise_exception('Unexpected content type.') }}{%- endif %}
{%- endmacro %}
{%- if not messages %}{{- raise_exception('No messages provided.') }}{%- endif %}
{%- set ns = namespace(last_query=-1) %}
{%- for message in messages %}
  {%- if message.role == 'user' %}{%- set ns.last_query = loop.index0 %}{%- endif %}
{%- endfor %}
{%- if ns.last_query < 0 %}{{- raise_exception('No user query found in messages.') }}{%- endif %}
{%- for message in messages %}
  {%- if message.role == 'system' %}
    {%- if not loop.first %}
      {{- raise_exception('System message must be at the beginning.') }}
    {%- endif %}
    {{- '<|im_start|>system\\n' + render_content(message.content) + '<|im_end|>\\n' }}
  {%- elif message.role == 'user' %}
    {{- '<|im_start|>user\\n' + render_content(message.content) + '<|im_end|>\\n' }}
  {%- elif message.role == 'assistant' %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if loop.index0 > ns.last_query %}
      {%- set thought = message.reasoning_content or message.reasoning or '' %}
      {{- '<think>\\n' + thought + '\\n</think>\\n' }}
    {%- endif %}
    {{- render_content(message.content) }}
    {%- for call in message.tool_calls or [] %}
      {{- '<tool_call>' + call.function.name + call.function.arguments + '</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
  {%- elif message.role == 'tool' %}
    {{- '<tool_response>' + render_content(message.content) + '</tool_response>' }}
  {%- else %}{{- raise_exception('Unexpected message role.') }}{%- endif %}
{%- endfor %}
"""
"""The rules of Qwen's published template, which shows thoughts after the last question only."""


def render_qwen(body: Body, *, sees: bool = False, hears: bool = False) -> str:
    """Return the text that the model gets; refuse a request that the template refuses."""

    def raise_exception(detail: str) -> None:
        raise TemplateError(detail)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(QWEN_TEMPLATE)
    context = {"raise_exception": raise_exception, "sees": sees, "hears": hears}
    try:
        return template.render(messages=body["messages"], **context)
    except TemplateError as error:
        raise UnacceptableRequest(str(error)) from None


def require_thoughts(body: Body, prompt: str) -> None:
    """Refuse a request without what was thought before each call.

    The template shows it unless a message of the user follows, which may have a result's pictures.
    """
    messages = body["messages"]
    calls = [(place, each) for place, each in enumerate(messages) if each.get("tool_calls")]
    for (place, message), answer in zip(calls, ANSWERS, strict=False):
        sent = [message.get(name) for name in _REASONING_FIELDS]
        require(answer.thought in sent, "a call has no thought")
        is_last = all(each["role"] != "user" for each in messages[place:])
        is_shown = f"<think>\n{answer.thought}\n</think>" in prompt
        require(is_shown or not is_last, "a thought is not in the prompt")


class QwenFake(ProviderFake):
    """A text model of Qwen, served with its own template by llama.cpp."""

    name = "qwen template"
    model = "openai/qwen3-8b"
    adapters = ("litellm", "direct")
    reads = frozenset()

    path = "/v1/chat/completions"

    def list_variables(self, root: str) -> dict[str, str]:
        return {"OPENAI_API_BASE": f"{root}/v1", "OPENAI_API_KEY": "none"}

    def check_request(self, body: Body) -> None:
        check_chat_schema(body)
        require_thoughts(body, render_qwen(body))

    def count_rounds(self, body: Body) -> int | None:
        return count_chat_rounds(body["messages"])

    def write_answer(self, answer: ScriptedAnswer) -> RawFrames:
        return write_chat_answer(answer, {"reasoning_content": answer.thought})


class VllmFake(ProviderFake):
    """A model of vLLM that sees and hears; it names thoughts `reasoning`."""

    name = "vllm"
    model = "hosted_vllm/Qwen/Qwen3-Omni-30B-A3B-Thinking"
    adapters = ("litellm", "direct")
    reads = frozenset({"image", "audio"})

    path = "/v1/chat/completions"

    def list_variables(self, root: str) -> dict[str, str]:
        return {"HOSTED_VLLM_API_BASE": f"{root}/v1", "HOSTED_VLLM_API_KEY": "none"}

    def check_request(self, body: Body) -> None:
        check_chat_schema(body)
        for message in body["messages"]:
            for piece in list_pieces(message):
                known = {"text", "image_url", "input_audio", "audio_url", "video_url"}
                require(piece["type"] in known, f"Unknown part type: {piece['type']}")
        require_thoughts(body, render_qwen(body, sees=True, hears=True))

    def count_rounds(self, body: Body) -> int | None:
        return count_chat_rounds(body["messages"])

    def write_answer(self, answer: ScriptedAnswer) -> RawFrames:
        return write_chat_answer(answer, {"reasoning": answer.thought})
