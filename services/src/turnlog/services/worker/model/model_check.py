"""Finds out what the server of a model takes, by one small question for each capability.

A question is a request of a few words. The first one is plain; if it has no answer, no other is
asked. A server that refuses a further one does not take its form. Some servers report the faults of
a request as faults of their own, so a server's error counts as a refusal if it comes twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from turnlog.projections.blueprint.schema.timeout_specs import TimeoutSpec
from turnlog.services.worker.model.model_types import (
    FailureCode,
    LanguageModel,
    ModelFailure,
    ModelRequest,
)

Capability = Literal["taken", "refused", "unknown"]

_TIMEOUTS: Final = TimeoutSpec(first_token=120, total=180)

_ANSWERED_CODES: Final[frozenset[FailureCode]] = frozenset({"empty", "tools_not_offered"})
"""Failures that come after the server took the request."""

_REFUSAL_CODES: Final[frozenset[FailureCode]] = frozenset(
    {"bad_request", "response_format_refused", "content_filtered", "unknown_model"}
)

_USER: Final = {"role": "user", "content": "Say yes."}

_SYSTEM: Final = {"role": "system", "content": "Be brief."}

_ASSISTANT: Final = {"role": "assistant", "content": "Yes."}

_PIXEL: Final = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6"
    "kgAAAABJRU5ErkJggg=="
)

_ANSWER_SCHEMA: Final = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}

_PARAMETER_VALUES: Final[Mapping[str, object]] = {
    "frequency_penalty": 0.1,
    "max_completion_tokens": 16,
    "max_tokens": 16,
    "presence_penalty": 0.1,
    "reasoning_effort": "low",
    "seed": 1,
    "stop": ["###"],
    "temperature": 0.5,
    "top_p": 0.9,
}
"""A small value of each parameter that needs no tools."""


def _build_tool(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": name, "description": "Looks it up.", "parameters": dict(parameters)}
    return {"type": "function", "function": function}


_TOOL: Final = _build_tool("look", {"type": "object", "properties": {"what": {"type": "string"}}})

_REFERRING_TOOL: Final = _build_tool(
    "look",
    {
        "type": "object",
        "properties": {"what": {"$ref": "#/$defs/Thing"}},
        "$defs": {"Thing": {"type": "object", "properties": {"name": {"type": "string"}}}},
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelQuestion:
    """A request that shows whether a server takes one form."""

    name: str
    """`two_systems`, or the name of a parameter."""
    meaning: str
    messages: Sequence[Mapping[str, Any]] = (_USER,)
    tools: Sequence[Mapping[str, Any]] = ()
    parameters: Mapping[str, object] = field(default_factory=dict[str, object])


PLAIN_QUESTION: Final = ModelQuestion(
    name="plain", meaning="a system message and one of the user", messages=(_SYSTEM, _USER)
)

TOOL_QUESTION: Final = ModelQuestion(name="tool", meaning="a tool", tools=(_TOOL,))

_PARAMETER_QUESTIONS: Final = tuple(
    ModelQuestion(name=name, meaning=f"the parameter `{name}`", parameters={name: value})
    for name, value in _PARAMETER_VALUES.items()
)

_FORM_QUESTIONS: Final = (
    ModelQuestion(
        name="two_systems",
        meaning="two system messages at the beginning",
        messages=(_SYSTEM, _SYSTEM, _USER),
    ),
    ModelQuestion(
        name="late_system",
        meaning="a system message after others",
        messages=(_SYSTEM, _USER, _ASSISTANT, _SYSTEM, _USER),
    ),
    ModelQuestion(
        name="two_users", meaning="two messages of the user in a row", messages=(_USER, _USER)
    ),
    ModelQuestion(
        name="assistant_first",
        meaning="a message of the assistant first",
        messages=(_ASSISTANT, _USER),
    ),
    ModelQuestion(
        name="image",
        meaning="a picture",
        messages=(
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Say yes."},
                    {"type": "image_url", "image_url": {"url": _PIXEL}},
                ],
            },
        ),
    ),
    ModelQuestion(
        name="response_format",
        meaning="the schema of the answer",
        parameters={
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": _ANSWER_SCHEMA, "strict": True},
            }
        },
    ),
)


def _build_name_question(name: str, meaning: str, tool: str) -> ModelQuestion:
    named = _build_tool(tool, {"type": "object", "properties": {}})
    return ModelQuestion(name=name, meaning=meaning, tools=(named,))


_PICTURE: Final = {"type": "image_url", "image_url": {"url": _PIXEL}}

_CALLED: Final = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "call00001", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    ],
}

_RESULT: Final = {"role": "tool", "tool_call_id": "call00001", "content": "Here."}

_CALL_QUESTIONS: Final = (
    ModelQuestion(
        name="bare_call",
        meaning="a tool call without `reasoning_content`",
        messages=(_USER, _CALLED, _RESULT),
        tools=(_TOOL,),
    ),
    ModelQuestion(
        name="blank_reasoning",
        meaning="a tool call with a blank as `reasoning_content`",
        messages=(_USER, {**_CALLED, "reasoning_content": " "}, _RESULT),
        tools=(_TOOL,),
    ),
)

_PICTURE_QUESTIONS: Final = (
    ModelQuestion(
        name="picture_in_result",
        meaning="a picture in the result of a tool",
        messages=(
            _USER,
            _CALLED,
            {**_RESULT, "content": [{"type": "text", "text": "Here."}, _PICTURE]},
        ),
        tools=(_TOOL,),
    ),
    ModelQuestion(
        name="picture_after_result",
        meaning="a picture of the user after the result of a tool",
        messages=(_USER, _CALLED, _RESULT, {"role": "user", "content": [_PICTURE]}),
        tools=(_TOOL,),
    ),
)
"""Asked where a tool and a picture are taken."""

_TOOL_QUESTIONS: Final = (
    ModelQuestion(
        name="tool_refs", meaning="`$ref` in the schema of a tool", tools=(_REFERRING_TOOL,)
    ),
    ModelQuestion(
        name="bare_schema",
        meaning="a schema without `properties`",
        tools=(_build_tool("look", {"type": "object"}),),
    ),
    _build_name_question("dotted_name", "a dot in the name of a tool", "look.up"),
    _build_name_question("dashed_name", "a dash in the name of a tool", "look-up"),
    _build_name_question("digit_name", "a digit at the beginning of the name of a tool", "2look"),
    _build_name_question("long_name", "64 characters in the name of a tool", "look" * 16),
    ModelQuestion(
        name="parallel_tool_calls",
        meaning="the parameter `parallel_tool_calls`",
        tools=(_TOOL,),
        parameters={"parallel_tool_calls": False},
    ),
    ModelQuestion(
        name="tool_choice",
        meaning="the parameter `tool_choice`",
        tools=(_TOOL,),
        parameters={"tool_choice": "auto"},
    ),
)

_SHORT_NAME: Final = 32
"""The characters that names are shortened to where 64 are refused."""

QUESTION_COUNT: Final = 2 + sum(
    map(
        len,
        (
            _PARAMETER_QUESTIONS,
            _FORM_QUESTIONS,
            _TOOL_QUESTIONS,
            _CALL_QUESTIONS,
            _PICTURE_QUESTIONS,
        ),
    )
)
"""The most questions that one check asks; a server's error is asked about twice."""

_PARAMETER_NAMES: Final = frozenset({*_PARAMETER_VALUES, "parallel_tool_calls", "tool_choice"})


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """Whether a server takes one form."""

    name: str
    meaning: str
    capability: Capability
    code: FailureCode | None = None
    """Why it is not taken, or not known."""


async def check_model(model: str, asked: LanguageModel) -> AsyncIterator[QuestionResult]:
    """Ask about each capability in turn; only the plain question if that has no answer."""
    plain = await _send_question(model, asked, PLAIN_QUESTION, {})
    yield plain
    if plain.capability != "taken":
        return
    limit: dict[str, object] = {}
    for question in sorted(_PARAMETER_QUESTIONS, key=lambda each: not each.name.startswith("max")):
        result = await _send_question(model, asked, question, limit)
        yield result
        if not limit and question.name.startswith("max") and result.capability == "taken":
            limit = dict(question.parameters)
    has_pictures = False
    for question in _FORM_QUESTIONS:
        result = await _send_question(model, asked, question, limit)
        yield result
        has_pictures = has_pictures or (question.name, result.capability) == ("image", "taken")
    tool = await _send_question(model, asked, TOOL_QUESTION, limit)
    yield tool
    if tool.capability == "taken":
        pictures = _PICTURE_QUESTIONS if has_pictures else ()
        for question in (*_TOOL_QUESTIONS, *_CALL_QUESTIONS, *pictures):
            yield await _send_question(model, asked, question, limit)


async def _send_question(
    model: str, asked: LanguageModel, question: ModelQuestion, limit: Mapping[str, object]
) -> QuestionResult:
    """Ask a question; the length of the answer is limited unless that is the question."""
    beside = dict[str, object]() if question.name.startswith("max") else limit
    request = ModelRequest(
        model=model,
        messages=tuple(question.messages),
        tools=tuple(question.tools),
        parameters={**beside, **question.parameters},
        timeouts=_TIMEOUTS,
    )
    code = await _find_failure(asked, request)
    if code == "server_error" and question is not PLAIN_QUESTION:
        code = await _find_failure(asked, request)
        capability: Capability = "refused" if code == "server_error" else _classify_code(code)
    else:
        capability = _classify_code(code)
    shown = None if capability == "taken" else code
    return QuestionResult(question.name, question.meaning, capability, shown)


async def _find_failure(asked: LanguageModel, request: ModelRequest) -> FailureCode | None:
    try:
        async with aclosing(asked.stream(request)) as stream:
            async for _ in stream:
                pass
    except ModelFailure as failure:
        return failure.code
    return None


def _classify_code(code: FailureCode | None) -> Capability:
    if code is None or code in _ANSWERED_CODES:
        return "taken"
    return "refused" if code in _REFUSAL_CODES else "unknown"


def describe_dialect(results: Sequence[QuestionResult]) -> dict[str, Any]:
    """Return the fields of a dialect that follow from the answers, as a file of dialects has them.

    What is taken as it is has no field, except for what a blueprint or a session decides by.
    """
    refused = {each.name for each in results if each.capability == "refused"}
    taken = {each.name for each in results if each.capability == "taken"}
    fields: dict[str, Any] = {}
    if refused & {"two_users", "assistant_first"}:
        fields["roles"] = "alternating"
    elif refused & {"two_systems", "late_system"}:
        fields["roles"] = "system_first"
    if "tool_refs" in refused:
        fields["tool_refs"] = "inline"
    for name, word in (("response_format", "response_format"), ("image", "images")):
        if name in refused | taken:
            fields[word] = name in taken
    if "picture_in_result" in refused:
        fields["tool_pictures"] = "user" if "picture_after_result" in taken else "none"
    if "bare_call" in refused and "blank_reasoning" in taken:
        fields["call_reasoning"] = "required"
    if rule := _describe_tool_names(refused):
        fields["tool_names"] = rule
    if parameters := sorted(refused & _PARAMETER_NAMES):
        fields["refused_parameters"] = parameters
    return fields


def _describe_tool_names(refused: AbstractSet[str]) -> dict[str, Any]:
    """Return the rule of names, without what is taken; the length is a guess where 64 are not."""
    rule: dict[str, Any] = {}
    if "dashed_name" in refused:
        rule["characters"] = "word"
    if "digit_name" in refused:
        rule["first"] = "letter"
    if "long_name" in refused:
        rule["length"] = _SHORT_NAME
    return rule
