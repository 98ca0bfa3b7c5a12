"""DeepSeek's chat completions, by models of its published reference.

Source: the pages *Create Chat Completion* and *Thinking Mode* of DeepSeek's API documentation, as
they were in October 2026. In thinking mode a message with calls must have `reasoning_content` in
every later request, and the service says 400 if it has not; a reply without calls needs none.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field

from tests.support.providers.openai_chat_fake import (
    check_results_follow_calls,
    count_chat_rounds,
    write_chat_answer,
)
from tests.support.providers.provider_dialogue import (
    ANSWERS,
    Body,
    ProviderFake,
    ScriptedAnswer,
    require,
)
from tests.support.providers.published_schema import WireModel, check_model
from tests.support.servers.model_behaviours import RawFrames

MISSING: Final = "The `reasoning_content` in the thinking mode must be passed back to the API."


class TextMessage(WireModel):
    role: Literal["system", "user"]
    content: str
    name: str | None = None


class CalledFunction(WireModel):
    name: str
    arguments: str


class ToolCall(WireModel):
    id: str
    type: Literal["function"]
    function: CalledFunction


class AssistantMessage(WireModel):
    role: Literal["assistant"]
    content: str | None = None
    """litellm leaves out null, which the service takes beside calls."""
    name: str | None = None
    prefix: bool = False
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] = []


class ToolMessage(WireModel):
    role: Literal["tool"]
    content: str
    tool_call_id: str


class Function(WireModel):
    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    description: str = ""
    parameters: dict[str, Any] = {}
    strict: bool = False


class Tool(WireModel):
    type: Literal["function"]
    function: Function


class ChosenFunction(WireModel):
    name: str


class ToolChoice(WireModel):
    type: Literal["function"]
    function: ChosenFunction


class ResponseFormat(WireModel):
    type: Literal["text", "json_object"]


class Thinking(WireModel):
    type: Literal["enabled", "disabled"]


class StreamOptions(WireModel):
    include_usage: bool


class ChatRequest(WireModel):
    messages: list[
        Annotated[TextMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]
    ]
    model: str
    thinking: Thinking | None = None
    """Without it the models of the fourth version think."""
    reasoning_effort: Literal["minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    stream: Literal[True]
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    response_format: ResponseFormat | None = None
    stop: str | Annotated[list[str], Field(max_length=16)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    tools: Annotated[list[Tool], Field(max_length=128)] = []
    tool_choice: ToolChoice | Literal["none", "auto", "required"] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None


class DeepSeekFake(ProviderFake):
    """Reads texts only, and wants the thoughts of a turn's rounds beside their calls."""

    name = "deepseek"
    model = "deepseek/deepseek-v4-pro"
    reads = frozenset()

    path = "/v1/chat/completions"
    is_asked_to_think: ClassVar[bool] = True
    """Whether requests must say that the model shall think."""

    def list_variables(self, root: str) -> dict[str, str]:
        return {"DEEPSEEK_API_BASE": f"{root}/v1", "DEEPSEEK_API_KEY": "dk"}

    def check_request(self, body: Body) -> None:
        check_model(ChatRequest, body)
        messages: list[dict[str, Any]] = body["messages"]
        thinking: dict[str, Any] = body.get("thinking") or {}
        asked = "enabled" if self.is_asked_to_think else None
        require(thinking.get("type") == asked, f"thinking is {thinking}")
        check_results_follow_calls(messages)
        self.check_thoughts(messages)

    def check_thoughts(self, messages: list[dict[str, Any]]) -> None:
        """Refuse calls without the thought before them."""
        check_reasoning_content(messages, "reasoning_content")

    def count_rounds(self, body: Body) -> int | None:
        return count_chat_rounds(body["messages"])

    def write_answer(self, answer: ScriptedAnswer) -> RawFrames:
        return write_chat_answer(answer, {"reasoning_content": answer.thought})


class UnaskedDeepSeekFake(DeepSeekFake):
    """The same, of a model that thinks although no request asks it to."""

    is_asked_to_think = False


class ThoughtlessDeepSeekFake(UnaskedDeepSeekFake):
    """The same, of a model that thought nothing before it called tools, and wants the field."""

    def check_thoughts(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            require(message.get("reasoning_content") or not message.get("tool_calls"), MISSING)

    def write_answer(self, answer: ScriptedAnswer) -> RawFrames:
        return write_chat_answer(answer, {"reasoning_content": ""})


def check_reasoning_content(messages: list[dict[str, Any]], field: str) -> None:
    """Refuse calls without the thought before them."""
    calls = [each for each in messages if each.get("tool_calls")]
    for message, answer in zip(calls, ANSWERS, strict=False):
        require(
            message.get(field) == answer.thought,
            f"The `{field}` in the thinking mode must be passed back to the API.",
        )
