"""The request as it is handed to litellm, and its canonical form.

The digest of this form is what the record promises: what litellm and the provider make of the
request afterwards is beyond it, and the docs say so.
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
"""Messages that are digested at a time: not each by itself, and never a long window as one."""
_ENCODER: Final = JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"))


# Without slots, both: what digests are made from stays with a message that is said again, and the
# digest with the request
@dataclass(frozen=True)
class ChatMessage:
    """One message of a prompt."""

    role: Role
    content: str

    @cached_property
    def form(self) -> bytes:
        """Its one form, see `canonical`, as UTF-8."""
        return f'{{"content":{canonical(self.content)},"role":"{self.role}"}}'.encode()

    @cached_property
    def digest(self) -> Digest:
        """Digest of its content."""
        return digest_of(self.content)


@dataclass(frozen=True)
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

    @cached_property
    def digest(self) -> Digest:
        """SHA-256 of the canonical form of `wire`: JSON, keys sorted, no blanks, UTF-8."""
        return digest_of_all(self._form())

    def digested_with(self, other: Request | None) -> Digest:
        """Give its digest, which is another's where both have the same form.

        That is more than to be equal: 1 and 1.0 are, and JSON spells them in two ways.
        """
        if other and other.messages == self.messages and other.around == self.around:
            return other.digest
        return self.digest

    @cached_property
    def around(self) -> bytes:
        """What its form says behind the messages."""
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
    """Spell a value in its one form: JSON, keys sorted, no blanks."""
    return _ENCODER.encode(value)
