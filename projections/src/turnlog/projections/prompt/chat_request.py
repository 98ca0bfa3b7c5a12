"""The request that is sent to a model, its canonical form, and its body over OpenAI's protocol.

The record promises the digest of the canonical form. What litellm and the provider make of the
request afterwards is outside of it. Where a server gets the request without litellm, the record
promises the digest of the body as well, which is sent byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Final

from pydantic import JsonValue

from turnlog.events.content import Digest, compute_digest, compute_joined_digest, encode_canonical
from turnlog.events.model.manifest import MessageRole
from turnlog.events.tokens import ToolRequest
from turnlog.projections.prompt.message_media import (
    NO_BYTES,
    MediaBytes,
    MessageMedia,
    encode_plain_content,
    encode_sent_content,
)

_DIGEST_BATCH: Final = 64
"""Messages that are hashed at a time: neither one by one nor a long prompt at once."""


# Both classes are without slots, for cached properties: a message of a turn appears in many
# prompts.
@dataclass(frozen=True)
class ChatMessage:
    """One message of a prompt."""

    role: MessageRole
    """The role of the message."""
    content: str
    """The text of the message."""
    tool_calls: tuple[ToolRequest, ...] = ()
    """The tool calls of an assistant's message; their arguments are JSON objects."""
    tool_call_id: str | None = None
    """The tool call that a message of the role `tool` answers."""
    _: KW_ONLY
    media: tuple[MessageMedia, ...] = ()
    """Pictures, recordings and files in the message, in the order of their places in the text."""
    reasoning: str = ""
    """The fields with what the model reasoned before an assistant's message, as a JSON object."""
    ends_cached: bool = False
    """Whether the provider is asked to cache the prompt up to its end."""

    def encode_plain(self) -> dict[str, JsonValue]:
        """Return the message as plain values, in OpenAI's format, which litellm takes."""
        plain: dict[str, JsonValue] = {"role": self.role, "content": self.content}
        if self.media:
            plain["content"] = encode_plain_content(self.content, self.media)
        if self.tool_calls:
            # Providers refuse an empty text, and take none beside tool calls.
            plain["content"] = self.content or None
            plain["tool_calls"] = [_encode_tool_call(each) for each in self.tool_calls]
        if self.tool_call_id is not None:
            plain["tool_call_id"] = self.tool_call_id
        if self.reasoning:
            _add_reasoning(plain, json.loads(self.reasoning))
        if self.ends_cached:
            plain["cache_control"] = {"type": "ephemeral"}
        return plain

    def encode_sent(self, data: MediaBytes) -> dict[str, JsonValue]:
        """Return the message as a server is sent it; raises `Corrupt` where bytes are missing."""
        if not self.media:
            return self.encode_plain()
        content = encode_sent_content(self.content, self.media, data)
        return {**self.encode_plain(), "content": content}

    @cached_property
    def canonical_bytes(self) -> bytes:
        """The canonical form as UTF-8, see `encode_canonical`."""
        is_plain = not (self.tool_calls or self.tool_call_id is not None or self.media)
        if not is_plain or self.reasoning or self.ends_cached:
            return encode_canonical(self.encode_plain()).encode()
        return f'{{"content":{encode_canonical(self.content)},"role":"{self.role}"}}'.encode()

    @cached_property
    def digest(self) -> Digest:
        """Digest of the content."""
        return compute_digest(self.content)


def _encode_tool_call(request: ToolRequest) -> dict[str, JsonValue]:
    called: dict[str, JsonValue] = {"name": request.tool, "arguments": request.arguments}
    beside: dict[str, JsonValue] = json.loads(request.signature) if request.signature else {}
    return {**beside, "id": request.id, "type": "function", "function": called}


def _add_reasoning(plain: dict[str, JsonValue], fields: Mapping[str, JsonValue]) -> None:
    """Add what was reasoned to a message; parts of its content come before its text."""
    text, parts = plain["content"], fields.get("content")
    plain |= {name: value for name, value in fields.items() if name not in plain}
    if isinstance(parts, list):
        own: list[JsonValue] = [{"type": "text", "text": text}] if text else []
        plain["content"] = [*parts, *own]


@dataclass(frozen=True)
class ChatRequest:
    """Everything that a model is sent."""

    model: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[dict[str, JsonValue], ...] = ()
    parameters: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])

    def encode_plain(self) -> dict[str, JsonValue]:
        """Return the request as plain values."""
        return {
            "model": self.model,
            "messages": [message.encode_plain() for message in self.messages],
            "tools": list(self.tools),
            "parameters": self.parameters,
        }

    @cached_property
    def digest(self) -> Digest:
        """SHA-256 of the canonical form of `encode_plain`: JSON, keys sorted, no spaces, UTF-8."""
        return compute_joined_digest(self._iterate_canonical())

    def compute_digest(self, other: ChatRequest | None) -> Digest:
        """Return the digest; reuse that of `other` if both have the same canonical form.

        Equality is not enough: 1 and 1.0 are equal, and JSON spells them differently.
        """
        if (
            other
            and other.messages == self.messages
            and other.canonical_tail == self.canonical_tail
        ):
            return other.digest
        return self.digest

    @cached_property
    def canonical_tail(self) -> bytes:
        """The canonical form after the messages."""
        model, parameters = encode_canonical(self.model), encode_canonical(self.parameters)
        tools = ",".join(map(encode_canonical, self.tools))
        return f'],"model":{model},"parameters":{parameters},"tools":[{tools}]}}'.encode()

    @property
    def media(self) -> tuple[MessageMedia, ...]:
        """The pictures, recordings and files that the model is sent."""
        media = (each for message in self.messages for each in message.media)
        return tuple(each for each in media if each.note is None)

    def build_chat_body(self, data: MediaBytes = NO_BYTES) -> bytes:
        """Return the body that a server of OpenAI's protocol is sent, see `encode_chat_body`.

        Raises `Corrupt` where the bytes of a picture, a recording or a file are missing.
        """
        messages = (
            encode_canonical(message.encode_sent(data)).encode()
            if message.media
            else message.canonical_bytes
            for message in self.messages
        )
        return encode_chat_body(self.model, messages, self.tools, self.parameters)

    def _iterate_canonical(self) -> Iterator[bytes]:
        yield b'{"messages":['
        forms = [message.canonical_bytes for message in self.messages]
        for at in range(0, len(forms), _DIGEST_BATCH):
            yield (b"," if at else b"") + b",".join(forms[at : at + _DIGEST_BATCH])
        yield self.canonical_tail


def encode_chat_body(
    model: str,
    messages: Iterable[bytes],
    tools: Sequence[JsonValue],
    parameters: Mapping[str, JsonValue],
) -> bytes:
    """Return the body of a streamed request over OpenAI's protocol, in canonical form.

    `messages` are in canonical form. The server's name of the model is what follows the provider,
    and the parameters are members beside it. No tools are none, since servers refuse an empty list.
    """
    members = {name: encode_canonical(value).encode() for name, value in parameters.items()}
    members |= {
        "messages": b"[" + b",".join(messages) + b"]",
        "model": encode_canonical(model.partition("/")[2]).encode(),
        "stream": b"true",
        "stream_options": b'{"include_usage":true}',
    }
    if tools:
        members["tools"] = b"[" + ",".join(map(encode_canonical, tools)).encode() + b"]"
    return b"{%s}" % b",".join(
        b'"%s":%s' % (name.encode(), members[name]) for name in sorted(members)
    )
