"""A model that answers from a script, word by word, without litellm and without a server.

It decides by the request alone, so the same request always gets the same answer. A reply is chosen
by the last user message, the system messages and the latest tool result, or else by the number of
turns so far. It requests tools whether they are offered or not, and can fail in every way that a
provider can.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from turnlog.events.model.turn_events import FinishReason
from turnlog.projections.blueprint.linear_patterns import compile_pattern, find_pattern_fault
from turnlog.services.worker.model.answers.answer_end import build_finished
from turnlog.services.worker.model.answers.chunk_reader import ChunkReader
from turnlog.services.worker.model.call_timeouts import CallTimeouts, open_call_timer
from turnlog.services.worker.model.model_types import (
    FailureCode,
    FinishedAnswer,
    ModelFailure,
    ModelRequest,
    ModelToolCall,
    ModelUsage,
    TextDelta,
    check_parameters,
)

_WORD = re.compile(r"\S+\s*|\s+")

_TEXT_SLOT = "{text}"


class ScriptedToolCall(BaseModel):
    """A tool to request after the text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """The name of the tool, offered or not."""
    arguments: dict[str, JsonValue] = {}
    """The arguments of the call."""


class ScriptedReply(BaseModel):
    """One reply of a script."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    """The text; `{text}` in it is replaced with the last user message."""
    match: str | None = None
    """A pattern searched in the last user message, in any case."""
    system: str | None = None
    """A pattern searched in the system messages. Replies without any pattern are used in turn."""
    result: str | None = None
    """A pattern searched in the tool result that ends the request. No other reply answers one."""
    tools: tuple[ScriptedToolCall, ...] = ()
    """Tools requested at the end."""
    finish: FinishReason = "stop"
    """The finish reason."""
    fail: FailureCode | None = None
    """Fail with this code after the text, instead of finishing."""
    pace: float = Field(default=0.02, ge=0)
    """Seconds before each word."""

    @field_validator("match", "system", "result")
    @classmethod
    def _check_pattern(cls, pattern: str | None) -> str | None:
        if fault := find_pattern_fault(pattern or ""):
            raise ValueError(f"{fault.reason}; {fault.fix}")
        return pattern


class ModelScript(BaseModel):
    """All replies of a scripted model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    replies: tuple[ScriptedReply, ...] = Field(min_length=1)
    """Replies with patterns are tried in order; if none matches, the others are used in turn."""


def choose_reply(script: ModelScript, messages: Sequence[Mapping[str, object]]) -> ScriptedReply:
    user_texts = _list_texts(messages, "user")
    last = user_texts[-1] if user_texts else ""
    system_text = "\n".join(_list_texts(messages, "system"))
    is_result = bool(messages) and messages[-1].get("role") == "tool"
    result = _read_content(messages[-1].get("content")) if is_result else None
    reply = _find_matching_reply(script, last, system_text, result) or _choose_reply_in_turn(
        script, len(user_texts)
    )
    return reply.model_copy(update={"text": reply.text.replace(_TEXT_SLOT, last)})


async def stream_reply(reply: ScriptedReply) -> AsyncGenerator[str, None]:
    """Yield the text word by word, and fail at the end if the script says so."""
    for word in _WORD.findall(reply.text):
        await asyncio.sleep(reply.pace)
        yield word
    if reply.fail is not None:
        raise ModelFailure(reply.fail, "as scripted")


def build_tool_calls(reply: ScriptedReply) -> tuple[ModelToolCall, ...]:
    """Return the requested tools as a provider spells them."""
    return tuple(
        ModelToolCall(f"scripted-{place}", tool.name, json.dumps(tool.arguments))
        for place, tool in enumerate(reply.tools, 1)
    )


def count_tokens(text: str) -> int:
    """Count the tokens of a text: a scripted model has one a word."""
    return len(_WORD.findall(text))


def count_sent_tokens(messages: Sequence[Mapping[str, object]]) -> int:
    return sum(count_tokens(_read_content(message.get("content"))) for message in messages)


def _list_texts(messages: Sequence[Mapping[str, object]], role: str) -> list[str]:
    return [
        _read_content(message.get("content")) for message in messages if message.get("role") == role
    ]


def _find_matching_reply(
    script: ModelScript, last: str, system_text: str, result: str | None
) -> ScriptedReply | None:
    for reply in script.replies:
        patterns = ((reply.match, last), (reply.system, system_text), (reply.result, result or ""))
        matchers = [(pattern, text) for pattern, text in patterns if pattern is not None]
        is_for_result = reply.result is not None
        if (
            matchers
            and is_for_result == (result is not None)
            and all(compile_pattern(f"(?i){pattern}").has_match(text) for pattern, text in matchers)
        ):
            return reply
    return None


def _choose_reply_in_turn(script: ModelScript, turn: int) -> ScriptedReply:
    waiting = [
        reply
        for reply in script.replies
        if reply.match is None and reply.system is None and reply.result is None
    ]
    if not waiting:
        raise ModelFailure("empty", "the script has no reply to this")
    return waiting[(max(turn, 1) - 1) % len(waiting)]


def _read_content(content: object) -> str:
    """Return the text of a message, whether plain or in parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        return ""
    parts = cast("Sequence[Mapping[str, object]]", content)
    return "".join(_read_content(part.get("text")) for part in parts)


SHIPPED_SCRIPTS = Path(__file__).parent / "scripts"

_SCRIPT_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ScriptFolder:
    """The scripts of a folder, then those that ship with Turnlog.

    A script is `<name>.yaml`; JSON is YAML too. A file is read once per process.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directories = (
            (SHIPPED_SCRIPTS,) if directory is None else (directory, SHIPPED_SCRIPTS)
        )
        self._read: dict[str, ModelScript] = {}

    def load_script(self, name: str) -> ModelScript:
        """Return a script; fails with `unknown_model`, or `bad_request` if it is invalid."""
        if name not in self._read:
            self._read[name] = _parse_script(self._find_script(name))
        return self._read[name]

    def _find_script(self, name: str) -> Path:
        if not _SCRIPT_NAME.fullmatch(name):
            raise ModelFailure("unknown_model", "a script's name is letters, digits, - and _")
        for directory in self._directories:
            if (path := directory / f"{name}.yaml").is_file():
                return path
        raise ModelFailure("unknown_model", f"there is no script {name}.yaml")


def _parse_script(path: Path) -> ModelScript:
    try:
        return ModelScript.model_validate(YAML(typ="safe").load(path))
    except ValidationError as error:
        first = error.errors()[0]
        field_path = ".".join(str(step) for step in first["loc"])
        raise ModelFailure("bad_request", f"{path.name}: {field_path}: {first['msg']}") from None
    except (YAMLError, UnicodeDecodeError):
        raise ModelFailure("bad_request", f"{path.name} is not YAML") from None


SCRIPTED_PROVIDER = "scripted"


class ScriptedModel:
    """A `LanguageModel` for `scripted/<name>`; `scripts` is a folder of scripts."""

    def __init__(self, timeouts: CallTimeouts | None = None, scripts: Path | None = None) -> None:
        self._timeouts = timeouts or CallTimeouts()
        self._scripts = ScriptFolder(scripts)

    async def stream(
        self, request: ModelRequest
    ) -> AsyncGenerator[TextDelta | FinishedAnswer, None]:
        check_parameters(request.parameters)
        name = request.model.partition("/")[2]
        reply = choose_reply(self._scripts.load_script(name), request.messages)
        reading = ChunkReader()
        with open_call_timer(self._timeouts.apply_spec(request.timeouts)) as timer:
            timer.mark_accepted()
            async with aclosing(stream_reply(reply)) as words:
                while (word := await timer.wait_for(anext(words, None))) is not None:
                    text, _ = reading.read_chunk(_build_chunk({"content": word}))
                    yield TextDelta(text)
                    timer.mark_token()
        for index, tool in enumerate(build_tool_calls(reply)):
            reading.read_chunk(_build_chunk({"tool_calls": [_build_tool_use(tool, index)]}))
        sent, received = count_sent_tokens(request.messages), count_tokens(reply.text)
        yield build_finished(
            reading,
            reason_name=reply.finish,
            usage=ModelUsage(sent, received) if sent or received else None,
            requested_model=name,
        )


def _build_chunk(delta: Mapping[str, object]) -> Mapping[str, object]:
    return {"choices": [{"delta": delta}]}


def _build_tool_use(tool: ModelToolCall, index: int) -> Mapping[str, object]:
    function = {"name": tool.name, "arguments": tool.arguments}
    return {"id": tool.id, "type": "function", "function": function, "index": index}
