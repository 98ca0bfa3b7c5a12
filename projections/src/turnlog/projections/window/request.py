"""The request as it is handed to litellm, and its canonical form.

The digest of this form is what the record promises: what litellm and the provider make of the
request afterwards is beyond it, and the docs say so.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from pydantic import JsonValue

from turnlog.events.content import Digest, digest_of
from turnlog.events.manifest import Role


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a prompt."""

    role: Role
    content: str


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
        """SHA-256 of the canonical form: JSON, keys sorted, no blanks, UTF-8."""
        return digest_of(canonical(self.wire()))


def canonical(value: JsonValue) -> str:
    """Spell a value in its one form: JSON, keys sorted, no blanks."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
