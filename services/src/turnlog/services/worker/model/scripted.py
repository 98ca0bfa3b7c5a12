"""A model that answers from a script, word by word, and its form as a litellm provider.

It decides by the request alone, so the same request always gets the same answer. A reply is chosen
by the last user message and the system messages, or else by the number of turns so far. It requests
tools whether they are offered or not, and can fail in every way that a provider can.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from turnlog.services.worker.model.exchange import FinishReason, ModelToolCall
from turnlog.services.worker.model.failures import FailureCode, ModelFailure

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
    """The text; `{text}` in it stands for the last user message."""
    match: str | None = None
    """A pattern searched in the last user message, in any case."""
    system: str | None = None
    """A pattern searched in the system messages. Replies with neither pattern are used in turn."""
    tools: tuple[ScriptedToolCall, ...] = ()
    """Tools requested at the end."""
    finish: FinishReason = "stop"
    """The finish reason."""
    fail: FailureCode | None = None
    """Fail with this code after the text, instead of finishing."""
    pace: float = Field(default=0.02, ge=0)
    """Seconds before each word."""

    @field_validator("match", "system")
    @classmethod
    def _check_pattern(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise ValueError(str(error)) from error
        return pattern


class ModelScript(BaseModel):
    """All replies of a scripted model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    replies: tuple[ScriptedReply, ...] = Field(min_length=1)
    """Replies with patterns are tried in order; if none matches, the others are used in turn."""


def choose_reply(script: ModelScript, messages: Sequence[Mapping[str, object]]) -> ScriptedReply:
    said = _list_texts(messages, "user")
    last = said[-1] if said else ""
    told = "\n".join(_list_texts(messages, "system"))
    reply = _find_matching_reply(script, last, told) or _choose_reply_in_turn(script, len(said))
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
        ModelToolCall(f"scripted-{place}", wanted.name, json.dumps(wanted.arguments))
        for place, wanted in enumerate(reply.tools, 1)
    )


def count_tokens(text: str) -> int:
    """Count the tokens of a text: a scripted model has one a word."""
    return len(_WORD.findall(text))


def count_sent_tokens(messages: Sequence[Mapping[str, object]]) -> int:
    return sum(count_tokens(_read_content(message.get("content"))) for message in messages)


def _list_texts(messages: Sequence[Mapping[str, object]], role: str) -> list[str]:
    return [_read_content(message.get("content")) for message in messages if message.get("role") == role]


def _find_matching_reply(script: ModelScript, last: str, told: str) -> ScriptedReply | None:
    for reply in script.replies:
        patterns = ((reply.match, last), (reply.system, told))
        given = [(pattern, text) for pattern, text in patterns if pattern is not None]
        if given and all(re.search(pattern, text, re.IGNORECASE) for pattern, text in given):
            return reply
    return None


def _choose_reply_in_turn(script: ModelScript, turn: int) -> ScriptedReply:
    waiting = [reply for reply in script.replies if reply.match is None and reply.system is None]
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
