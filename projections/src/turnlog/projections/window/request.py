"""The request that is sent through litellm, and its canonical form.

The record promises the digest of this form. What litellm and the provider make of the request
afterwards is outside of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from json import JSONEncoder
from typing import Final

from pydantic import JsonValue

from turnlog.events.content import Digest, digest_of, digest_of_all
from turnlog.events.manifest import Role

_TOGETHER: Final = 64
"""Messages that are hashed at a time: neither one by one nor a long prompt at once."""
_ENCODER: Final = JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


# Both classes are without slots, for cached properties: a message of a turn appears in many
# prompts.
@dataclass(frozen=True)
class ChatMessage:
    """One message of a prompt."""

    role: Role
    content: str

    @cached_property
    def form(self) -> bytes:
        """The canonical form as UTF-8, see `encode_canonical`."""
        return f'{{"content":{canonical(self.content)},"role":"{self.role}"}}'.encode()

    @cached_property
    def digest(self) -> Digest:
        """Digest of the content."""
        return digest_of(self.content)


@dataclass(frozen=True)
class Request:
    """Everything that a model is sent."""

    model: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[dict[str, JsonValue], ...] = ()
    parameters: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])

    def wire(self) -> dict[str, JsonValue]:
        """Return the request as plain values."""
        return {
            "model": self.model,
            "messages": [{"role": said.role, "content": said.content} for said in self.messages],
            "tools": list(self.tools),
            "parameters": self.parameters,
        }

    @cached_property
    def digest(self) -> Digest:
        """SHA-256 of the canonical form of `encode_plain`: JSON, keys sorted, no spaces, UTF-8."""
        return digest_of_all(self._form())

    def digested_with(self, other: Request | None) -> Digest:
        """Return the digest; reuse that of `other` if both have the same canonical form.

        Equality is not enough: 1 and 1.0 are equal, and JSON spells them differently.
        """
        if other and other.messages == self.messages and other.around == self.around:
            return other.digest
        return self.digest

    @cached_property
    def around(self) -> bytes:
        """The canonical form after the messages."""
        model, parameters = canonical(self.model), canonical(self.parameters)
        tools = ",".join(map(canonical, self.tools))
        return f'],"model":{model},"parameters":{parameters},"tools":[{tools}]}}'.encode()

    def _form(self) -> Iterator[bytes]:
        yield b'{"messages":['
        forms = [message.form for message in self.messages]
        for at in range(0, len(forms), _TOGETHER):
            yield (b"," if at else b"") + b",".join(forms[at : at + _TOGETHER])
        yield self.around


def canonical(value: JsonValue) -> str:
    """Return the canonical form of a value: JSON, keys sorted, no spaces."""
    return _ENCODER.encode(value)
