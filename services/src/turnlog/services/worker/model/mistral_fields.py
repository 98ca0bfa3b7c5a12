"""The members of a request to Mistral's own service that litellm leaves out or writes otherwise.

litellm joins the parts of a message into one text unless a picture or a file is in the prompt, so
that recordings are lost. It sends no reasoning back and no choice of one tool, and it puts a system
text of its own before that of the prompt. Mistral publishes a form for each: reasoning is a part
`thinking` of the content, and a recording is a text in base64. litellm puts what is returned here
into the body in place of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, cast

from pydantic import JsonValue

from turnlog.events.recorded_reasoning import BLOCK_FIELDS, TEXT_FIELDS, read_reasoning_text
from turnlog.services.worker.model.model_types import ModelRequest, convert_to_plain

_PREFIX: Final = "mistral/"

_REASONING_FIELDS: Final = frozenset({*TEXT_FIELDS, *BLOCK_FIELDS}) - {"content"}
"""Where a message has reasoning beside its content; Mistral refuses a member of these names."""

_MESSAGE_FIELDS: Final[tuple[str, ...]] = ("role", "tool_calls", "tool_call_id")
"""The members of a message that are sent as they are; the content is beside them."""


def build_mistral_fields(request: ModelRequest) -> dict[str, object]:
    """Return the members of the body that replace litellm's; none for another service's model."""
    if not request.model.startswith(_PREFIX):
        return {}
    fields: dict[str, object] = {"messages": list(_iterate_messages(request))}
    choice, seed = request.parameters.get("tool_choice"), request.parameters.get("seed")
    if isinstance(choice, Mapping):
        fields["tool_choice"] = convert_to_plain(cast("object", choice))
    # litellm sends the seed by the same argument, of which there is one
    return fields if seed is None else {**fields, "random_seed": seed}


def _iterate_messages(request: ModelRequest) -> Iterator[dict[str, JsonValue]]:
    for each in request.messages:
        message = cast("dict[str, JsonValue]", convert_to_plain(each))
        content = _write_content(message)
        # The service refuses an assistant's message that says nothing
        if content or message.get("tool_calls") or message["role"] != "assistant":
            sent = {name: message[name] for name in _MESSAGE_FIELDS if name in message}
            if content is not None:
                sent["content"] = content
            yield sent


def _write_content(message: Mapping[str, JsonValue]) -> JsonValue:
    """Return the content with what was reasoned before it; None where there is neither."""
    content = message.get("content")
    beside = {name: message[name] for name in _REASONING_FIELDS if name in message}
    thought = read_reasoning_text(beside)
    parts: list[JsonValue] = []
    if thought:
        parts.append({"type": "thinking", "thinking": [{"type": "text", "text": thought}]})
    match content:
        case str() if not thought:
            return content
        case str():
            if content:
                parts.append({"type": "text", "text": content})
        case list():
            parts += map(_write_part, content)
        case _:
            pass
    return parts or None


def _write_part(part: JsonValue) -> JsonValue:
    match part:
        case {"type": "input_audio", "input_audio": {"data": data}}:
            return {"type": "input_audio", "input_audio": data}
        case _:
            return part
