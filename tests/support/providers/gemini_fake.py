"""Gemini's `generateContent`, by models of its published types.

Source: `google-genai` 3.6.1, `types.py`: `Content`, `Tool`, `ToolConfig` and `GenerationConfig`, of
which the members for a server's own tools are left out. Names may be in snake or camel case, as in
all JSON of protocol buffers. From its documentation (*Thought signatures*, *Function calling*): the
first call of each step of the turn has its signature, and there is a result for each call.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator
from pydantic.alias_generators import to_camel

from tests.support.providers.provider_dialogue import (
    ANSWERS,
    Body,
    ProviderFake,
    ScriptedAnswer,
    require,
    write_events,
    write_json_refusal,
)
from tests.support.providers.published_schema import WireModel, check_model
from tests.support.servers.model_behaviours import ModelBehaviour, RawFrames

_MEDIA_TYPES = frozenset(
    {
        *("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "application/pdf"),
        *("audio/wav", "audio/mp3", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac"),
        *("audio/mpeg", "text/plain"),
    }
)


class ProtoModel(WireModel):
    """A message of protocol buffers as JSON."""

    model_config = {**WireModel.model_config, "alias_generator": to_camel, "populate_by_name": True}


class Blob(ProtoModel):
    mime_type: str
    data: str
    display_name: str | None = None


class FunctionCall(ProtoModel):
    id: str | None = None
    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_:.-]{1,128}$")]
    args: dict[str, Any] = {}


class FunctionResponsePart(ProtoModel):
    """A part of a result, which is a picture or a document."""

    inline_data: Blob


class FunctionResponse(ProtoModel):
    id: str | None = None
    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_:.-]{1,128}$")]
    response: dict[str, Any]
    parts: list[FunctionResponsePart] = []


class Part(ProtoModel):
    text: str | None = None
    inline_data: Blob | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    thought: bool | None = None
    thought_signature: str | None = None

    @model_validator(mode="after")
    def check_data(self) -> Self:
        data = (self.text, self.inline_data, self.function_call, self.function_response)
        if sum(each is not None for each in data) != 1:
            raise ValueError("required oneof field 'data' must have one initialized field")
        return self


class Content(ProtoModel):
    role: Literal["user", "model"] | None = None
    parts: Annotated[list[Part], Field(min_length=1)]


class Schema(ProtoModel):
    type: (
        Annotated[str, Field(pattern="(?i)^(string|number|integer|boolean|array|object|null)$")]
        | None
    ) = None
    format: str | None = None
    title: str | None = None
    description: str | None = None
    nullable: bool | None = None
    enum: list[str] = []
    items: Schema | None = None
    properties: dict[str, Schema] = {}
    required: list[str] = []
    any_of: list[Schema] = []
    default: Any = None
    example: Any = None
    pattern: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    min_items: int | str | None = None
    max_items: int | str | None = None
    min_length: int | str | None = None
    max_length: int | str | None = None
    min_properties: int | str | None = None
    max_properties: int | str | None = None
    property_ordering: list[str] = []

    @model_validator(mode="after")
    def check_required(self) -> Self:
        if unknown := set(self.required) - self.properties.keys():
            raise ValueError(f"required: property is not defined: {min(unknown)}")
        return self


class FunctionDeclaration(ProtoModel):
    name: Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_:.-]{0,127}$")]
    description: str
    parameters: Schema | None = None
    parameters_json_schema: dict[str, Any] | None = None

    @model_validator(mode="after")
    def check_parameters(self) -> Self:
        if self.parameters is not None and self.parameters_json_schema is not None:
            raise ValueError("parameters and parametersJsonSchema are mutually exclusive")
        return self


class Tool(ProtoModel):
    function_declarations: Annotated[list[FunctionDeclaration], Field(max_length=512)]


class FunctionCallingConfig(ProtoModel):
    mode: Literal["AUTO", "ANY", "NONE", "VALIDATED"]
    allowed_function_names: list[str] = []


class ToolConfig(ProtoModel):
    function_calling_config: FunctionCallingConfig | None = None


class ThinkingConfig(ProtoModel):
    include_thoughts: bool = False
    thinking_budget: int | None = None
    thinking_level: (
        Annotated[str, Field(pattern="(?i)^(minimal|low|medium|high|xhigh)$")] | None
    ) = None

    @model_validator(mode="after")
    def check_level(self) -> Self:
        if self.thinking_budget is not None and self.thinking_level is not None:
            raise ValueError("thinking_budget and thinking_level cannot be used together")
        return self


class GenerationConfig(ProtoModel):
    thinking_config: ThinkingConfig
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: float | None = None
    top_k: float | None = None
    candidate_count: int | None = None
    max_output_tokens: int | None = None
    stop_sequences: Annotated[list[str], Field(max_length=5)] = []
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    response_mime_type: str | None = None
    response_schema: Schema | None = None
    response_json_schema: dict[str, Any] | None = None
    response_modalities: list[Literal["TEXT", "IMAGE", "AUDIO"]] = []


class GenerateContentRequest(ProtoModel):
    contents: Annotated[list[Content], Field(min_length=1)]
    system_instruction: Content | None = None
    tools: list[Tool] = []
    tool_config: ToolConfig | None = None
    generation_config: GenerationConfig


class GeminiFake(ProviderFake):
    """Wants the signature of a round's thoughts back in the part of its first call."""

    name = "gemini"
    model = "gemini/gemini-3-flash-preview"
    reads = frozenset({"image", "file", "audio"})
    thoughts_signed = True

    path = "/models/gemini-3-flash-preview:streamGenerateContent"

    def list_variables(self, root: str) -> dict[str, str]:
        return {"GEMINI_API_BASE": root, "GEMINI_API_KEY": "gk"}

    def check_request(self, body: Body) -> None:
        check_model(GenerateContentRequest, body)
        read = GenerateContentRequest.model_validate(body)
        require(read.generation_config.thinking_config.include_thoughts, "thinking is not on")
        require(read.contents[0].role == "user", "the first content is not the user's")
        for part in (part for content in read.contents for part in content.parts):
            blobs = [part.inline_data] if part.inline_data else []
            result = part.function_response
            blobs += [each.inline_data for each in result.parts] if result else []
            for blob in blobs:
                require(blob.mime_type in _MEDIA_TYPES, f"Unsupported MIME type: {blob.mime_type}")
                require(b64decode(blob.data, validate=True), "empty inline data")
        self._check_calls(read.contents)

    def _check_calls(self, contents: list[Content]) -> None:
        rounds = 0
        for content, after in zip(contents, [*contents[1:], None], strict=True):
            calls = [each for each in content.parts if each.function_call]
            if not calls:
                continue
            require(content.role == "model", "a call is not the model's")
            results = [each for each in after.parts if each.function_response] if after else []
            called = [each.function_call for each in calls if each.function_call]
            names = [(each.id, each.name) for each in called]
            returned = [each.function_response for each in results if each.function_response]
            answered = [(each.id, each.name) for each in returned]
            require(
                names == answered,
                "the number of function response parts is not equal to that of the calls",
            )
            require(
                calls[0].thought_signature == ANSWERS[rounds].signature,
                "Function call is missing a thought_signature in functionCall parts",
            )
            rounds += 1

    def count_rounds(self, body: Body) -> int | None:
        if "It is a heron." in str(body["contents"]):
            return None
        read = GenerateContentRequest.model_validate(body)
        return sum(any(part.function_call for part in each.parts) for each in read.contents)

    def write_answer(self, answer: ScriptedAnswer) -> RawFrames:
        parts: list[dict[str, Any]] = [{"text": answer.thought, "thought": True}]
        for place, call in enumerate(answer.calls):
            called = {"name": call.tool, "args": dict(call.arguments), "id": call.id}
            signed = {} if place else {"thoughtSignature": answer.signature}
            parts.append({"functionCall": called, **signed})
        if answer.text:
            parts.append({"text": answer.text, "thoughtSignature": answer.signature})
        usage = {"promptTokenCount": 90, "candidatesTokenCount": 12, "totalTokenCount": 110}
        usage["thoughtsTokenCount"] = 8
        base = {"responseId": "gem-1", "modelVersion": "gemini", "usageMetadata": usage}
        frames: list[dict[str, Any]] = [
            {**base, "candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}
            for part in parts
        ]
        frames[-1]["candidates"][0]["finishReason"] = "STOP"
        return write_events(*frames)

    def write_refusal(self, detail: str) -> ModelBehaviour:
        error = {"code": 400, "message": detail, "status": "INVALID_ARGUMENT"}
        return write_json_refusal({"error": error})
