"""Servers of open models that speak OpenAI's chat protocol: vLLM, and llama.cpp with a template.

Sources: of vllm-project/vllm, `vllm/entrypoints/openai/chat_completion/protocol.py` at 002032ee and
`vllm/entrypoints/chat_utils.py` at 001eadcf, whose further members of messages and whose types of
content parts are below; and the chat template of Qwen3.5, whose rules are below in other words.
"""

from __future__ import annotations

import json
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

_CONTENT_PARTS: Final = frozenset(
    {
        *("text", "input_text", "output_text", "refusal", "thinking", "tool_reference"),
        *("image_url", "input_image", "image_pil", "image_embeds", "prompt_embeds"),
        *("audio_url", "input_audio", "audio_embeds", "video_url"),
    }
)
"""The types of content parts that vLLM takes."""


def check_chat_schema(body: Body, thought: frozenset[str]) -> None:
    """Refuse what OpenAI's schema lacks, but for thoughts and for pictures of a tool's result.

    `thought` are the members in which the server takes what was thought.
    """
    messages = [_leave_out_extensions(each, thought) for each in body["messages"]]
    check_typed_dict(CompletionCreateParamsStreaming, {**body, "messages": messages})
    check_tool_names(body)
    check_media_bytes(body["messages"])
    check_results_follow_calls(body["messages"])
    choice = body.get("tool_choice", "auto")
    is_taken = isinstance(choice, dict) or choice in {"none", "auto", "required"}
    require(is_taken, f"tool_choice: {choice!r}")


def _leave_out_extensions(message: dict[str, Any], thought: frozenset[str]) -> dict[str, Any]:
    """Return a message without what these servers take beside OpenAI's schema."""
    match message:
        case {"role": "assistant"}:
            return {name: message[name] for name in message if name not in thought}
        case {"role": "tool", "content": [*pieces]}:
            return {**message, "content": [each for each in pieces if each["type"] == "text"]}
        case _:
            return message


QWEN_TEMPLATE: Final = """
{%- macro render_content(content, is_system=false) %}
  {%- if content is string %}{{- content }}
  {%- elif content is iterable and content is not mapping %}
    {%- for item in content %}
      {%- if item.type == 'image_url' and sees %}
        {%- if is_system %}
          {{- raise_exception('System message cannot contain images.') }}
        {%- endif %}
        {{- '<|vision_start|><|image_pad|><|vision_end|>' }}
      {%- elif item.type == 'input_audio' and hears %}<|audio_start|><|audio_pad|><|audio_end|>
      {%- elif 'text' in item %}{{- item.text }}
      {%- else %}{{- raise_exception('Unexpected item type in content.') }}{%- endif %}
    {%- endfor %}
  {%- elif content is none or content is undefined %}
  {%- else %}{{- raise_exception('Unexpected content type.') }}{%- endif %}
{%- endmacro %}
{%- if not messages %}{{- raise_exception('No messages provided.') }}{%- endif %}
{%- set ns = namespace(last_query=-1) %}
{%- for message in messages %}
  {%- set text = render_content(message.content)|trim %}
  {%- set is_result = text.startswith('<tool_response>') and text.endswith('</tool_response>') %}
  {%- if message.role == 'user' and not is_result %}
    {%- set ns.last_query = loop.index0 %}
  {%- endif %}
{%- endfor %}
{%- if ns.last_query < 0 %}{{- raise_exception('No user query found in messages.') }}{%- endif %}
{%- for message in messages %}
  {%- set content = render_content(message.content, message.role == 'system')|trim %}
  {%- if message.role == 'system' %}
    {%- if not loop.first %}
      {{- raise_exception('System message must be at the beginning.') }}
    {%- endif %}
    {{- '<|im_start|>system\\n' + content + '<|im_end|>\\n' }}
  {%- elif message.role == 'user' %}
    {{- '<|im_start|>user\\n' + content + '<|im_end|>\\n' }}
  {%- elif message.role == 'assistant' %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if loop.index0 > ns.last_query %}
      {{- '<think>\\n' + (message.reasoning_content or '')|trim + '\\n</think>\\n\\n' }}
    {%- endif %}
    {{- content }}
    {%- for call in message.tool_calls or [] %}
      {{- '<tool_call>\\n<function=' + call.function.name + '>\\n' }}
      {%- for name, value in call.function.arguments|items %}
        {{- '<parameter=' + name + '>\\n' + value|string + '\\n</parameter>\\n' }}
      {%- endfor %}
      {{- '</function>\\n</tool_call>' }}
    {%- endfor %}
    {{- '<|im_end|>\\n' }}
  {%- elif message.role == 'tool' %}
    {{- '<tool_response>\\n' + content + '\\n</tool_response>' }}
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
    messages = list(map(_parse_arguments, body["messages"]))
    try:
        return template.render(messages=messages, **context)
    except TemplateError as error:
        raise UnacceptableRequest(str(error)) from None


def _parse_arguments(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message as servers give it to a template: the arguments of its calls are objects."""
    calls: list[dict[str, Any]] = []
    for call in message.get("tool_calls") or ():
        arguments = json.loads(call["function"]["arguments"])
        require(isinstance(arguments, dict), "the arguments of a call are no object")
        calls.append({**call, "function": {**call["function"], "arguments": arguments}})
    return {**message, "tool_calls": calls}


def require_thoughts(body: Body, prompt: str) -> None:
    """Refuse a request without what was thought before each call.

    The template shows it unless a message of the user follows, which may have a result's pictures.
    """
    messages = body["messages"]
    calls = [(place, each) for place, each in enumerate(messages) if each.get("tool_calls")]
    for (place, message), answer in zip(calls, ANSWERS, strict=False):
        require(message.get("reasoning_content") == answer.thought, "a call has no thought")
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
        check_chat_schema(body, frozenset({"reasoning_content"}))
        require_thoughts(body, render_qwen(body))

    def count_rounds(self, body: Body) -> int | None:
        return count_chat_rounds(body["messages"])

    def write_answer(self, answer: ScriptedAnswer) -> RawFrames:
        return write_chat_answer(answer, {"reasoning_content": answer.thought})


def _rename_thought(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with what was thought under the name that templates read."""
    thought = message.get("reasoning_content", message.get("reasoning"))
    return message if thought is None else {**message, "reasoning_content": thought}


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
        check_chat_schema(body, frozenset({"reasoning", "reasoning_content"}))
        for message in body["messages"]:
            for piece in list_pieces(message):
                kind = piece["type"]
                detail = f"Unsupported chat content part type: {kind!r}"
                require(kind in _CONTENT_PARTS, detail)
        read = {**body, "messages": list(map(_rename_thought, body["messages"]))}
        require_thoughts(read, render_qwen(read, sees=True, hears=True))

    def count_rounds(self, body: Body) -> int | None:
        return count_chat_rounds(body["messages"])

    def write_answer(self, answer: ScriptedAnswer) -> RawFrames:
        return write_chat_answer(answer, {"reasoning": answer.thought})
