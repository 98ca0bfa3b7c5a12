"""The request as it is handed to litellm, and its canonical form.

The digest of this form is what the record promises: what litellm and the provider make of the
request afterwards is beyond it, and the docs say so.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from pydantic import JsonValue

from turnlog.events.content import Digest, digest_of
from turnlog.events.manifest import Role

SHORT: Final = 4_000
REMEMBERED: Final = 4_096
"""Of short messages, as many are remembered: each is said again in every later call."""


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a prompt."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Spelt:
    """What digests are made from."""

    form: str
    """The message in canonical form."""
    digest: Digest
    """Digest of its content."""


@dataclass(frozen=True, slots=True)
class Request:
    """Everything a model is sent."""

    model: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[dict[str, JsonValue], ...] = ()
    parameters: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])

    def wire(self) -> dict[str, JsonValue]:
        """Give it as plain values."""
        return {
            "model": self.model,
            "messages": [{"role": said.role, "content": said.content} for said in self.messages],
            "tools": list(self.tools),
            "parameters": self.parameters,
        }

    @property
    def digest(self) -> Digest:
        """SHA-256 of the canonical form of `wire`: JSON, keys sorted, no blanks, UTF-8."""
        said = ",".join(spelt(message).form for message in self.messages)
        model, parameters = canonical(self.model), canonical(self.parameters)
        rest = f'"model":{model},"parameters":{parameters},"tools":{canonical([*self.tools])}'
        return digest_of(f'{{"messages":[{said}],{rest}}}')


def spelt(message: ChatMessage) -> Spelt:
    """Give the one form of a message, and the digest of its content."""
    short = len(message.content) <= SHORT
    return (_remembered if short else _spelt)(message.role, message.content)


def _spelt(role: Role, content: str) -> Spelt:
    return Spelt(canonical({"role": role, "content": content}), digest_of(content))


_remembered: Final = lru_cache(REMEMBERED)(_spelt)


def canonical(value: JsonValue) -> str:
    """Spell a value in its one form: JSON, keys sorted, no blanks."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
