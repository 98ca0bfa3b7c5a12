"""The responses about prompts: previews of a window, recorded prompts and their assembly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from turnlog.contract.payload_models import (
    JsonObject,
    ResponseModel,
)
from turnlog.events.content import Digest, encode_canonical
from turnlog.events.model.attempt_figures import AttemptCost
from turnlog.events.model.manifest import Manifest, MessageRole
from turnlog.events.recorded_reasoning import parse_reasoning
from turnlog.events.tokens import ToolRequest
from turnlog.projections.audit.verify.audit_findings import ReproductionOutcome
from turnlog.projections.prompt.chat_request import ChatMessage
from turnlog.projections.prompt.message_media import MessageMedia, encode_plain_content


def _is_none(value: object) -> bool:
    return value is None


class FunctionCallView(ResponseModel):
    """The function that a tool call names."""

    name: str
    """The tool, by the name that the model sees."""
    arguments: str
    """A JSON object, as text."""


class ToolCallView(ResponseModel):
    """A tool call in a message."""

    id: str
    """The id that the message with its result repeats."""
    type: Literal["function"]
    """The kind of tool."""
    function: FunctionCallView
    """What is called."""
    signature: Annotated[JsonObject | None, Field(exclude_if=_is_none)] = None
    """The fields that are sent beside these, as the provider wants them back; absent without."""


class ContentPieceView(ResponseModel):
    """A text, a picture, a recording or a file in a message, or the line in place of one."""

    type: Literal["text", "image", "audio", "file", "note"]
    """`note` is the line in the place of a part that is left out."""
    text: Annotated[str | None, Field(exclude_if=_is_none)] = None
    """The text, or the line; absent for the others."""
    digest: Annotated[Digest | None, Field(exclude_if=_is_none)] = None
    """The digest of the bytes; absent for a text."""
    media_type: Annotated[str | None, Field(exclude_if=_is_none)] = None
    """The type of the bytes; absent for a text."""
    name: Annotated[str | None, Field(exclude_if=_is_none)] = None
    """The name of the file; absent where it has none."""


class MessageView(ResponseModel):
    """A message of a prompt, as it is sent."""

    role: MessageRole
    """The role of the message."""
    content: str | tuple[ContentPieceView, ...] | None
    """The text of the message, or its texts and other parts in their order; null in one that only
    calls tools.
    """
    tool_calls: Annotated[tuple[ToolCallView, ...] | None, Field(exclude_if=_is_none)] = None
    """The tool calls of an assistant's message; absent where there are none."""
    tool_call_id: Annotated[str | None, Field(exclude_if=_is_none)] = None
    """The tool call that a message of the role `tool` answers; absent in any other."""
    reasoning: Annotated[JsonObject | None, Field(exclude_if=_is_none)] = None
    """The fields with what the model reasoned, which are sent beside these; absent without."""

    def restore_message(self) -> ChatMessage:
        """Return the message that this one describes."""
        calls = tuple(
            ToolRequest(
                id=each.id,
                tool=each.function.name,
                arguments=each.function.arguments,
                signature=_encode_fields(each.signature) or None,
            )
            for each in self.tool_calls or ()
        )
        text, media = _restore_content(self.content or "")
        return ChatMessage(
            role=self.role,
            content=text,
            tool_calls=calls,
            tool_call_id=self.tool_call_id,
            media=media,
            reasoning=_encode_fields(self.reasoning),
        )


def _encode_fields(fields: JsonObject | None) -> str:
    return encode_canonical(dict(fields)) if fields else ""


def _restore_content(
    content: str | tuple[ContentPieceView, ...],
) -> tuple[str, tuple[MessageMedia, ...]]:
    """Return the text of a content, and its media with their places in it."""
    if isinstance(content, str):
        return content, ()
    text, media = "", list[MessageMedia]()
    for piece in content:
        if piece.type == "text":
            text += piece.text or ""
            continue
        placed = MessageMedia(
            kind="file" if piece.type == "note" else piece.type,
            digest=piece.digest or "",
            media_type=piece.media_type or "",
            at=len(text),
            name=piece.name,
            note=piece.text,
        )
        media.append(placed)
    return text, tuple(media)


def describe_messages(messages: Iterable[ChatMessage]) -> tuple[MessageView, ...]:
    """Return the messages as they are sent, but for the fields of the model's reasoning."""
    return tuple(map(_describe_message, messages))


def _describe_message(message: ChatMessage) -> MessageView:
    calls = tuple(
        ToolCallView(
            id=each.id,
            type="function",
            function=FunctionCallView(name=each.tool, arguments=each.arguments),
            signature=parse_reasoning(each.signature) if each.signature else None,
        )
        for each in message.tool_calls
    )
    return MessageView(
        role=message.role,
        content=_describe_content(message) or (None if calls else ""),
        tool_calls=calls or None,
        tool_call_id=message.tool_call_id,
        reasoning=parse_reasoning(message.reasoning) if message.reasoning else None,
    )


def _describe_content(message: ChatMessage) -> str | tuple[ContentPieceView, ...]:
    if not message.media:
        return message.content
    pieces = encode_plain_content(message.content, message.media)
    return tuple(map(ContentPieceView.model_validate, pieces))


class PromptView(ResponseModel):
    """A prompt, and how it was assembled."""

    call: str
    """The kind of call."""
    model: str
    """The model of the call."""
    messages: tuple[MessageView, ...]
    """The messages in order."""
    tools: tuple[JsonObject, ...]
    """The tools that the call offers."""
    manifest: Manifest
    """The source of each part, and what was left out."""
    cost: AttemptCost
    """The estimated cost of the prompt alone, without the reply."""


class WindowView(PromptView):
    """What a call would see."""

    session: str
    """The session id."""
    sequence: int
    """The sequence of the state that was assembled."""
    turn_calls: tuple[str, ...] = ()
    """All kinds of calls that the turn may make, in order; `call` of a request selects one."""


class ReproductionFault(ResponseModel):
    """Why a prompt could not be reproduced."""

    where: str
    """The part at fault."""
    detail: str
    """What is wrong with it."""


class ReproductionView(ResponseModel):
    """The result of one way to reproduce a prompt."""

    outcome: ReproductionOutcome
    """`unreproducible` when this version or installation cannot reproduce it."""
    digest: Digest | None
    """The digest of the reproduced canonical request; null when there is none."""
    fault: ReproductionFault | None
    """The first difference, or what has changed since; null when the prompts are equal."""


class RecordedPromptView(ResponseModel):
    """The exact prompt of a call, reproduced from the log in two ways."""

    session: str
    """The session id."""
    sequence: int
    """The sequence of the event that recorded it."""
    call: str
    """The call id."""
    turn: int
    """The turn number."""
    model: str
    """The model as it was passed to litellm."""
    parameters: JsonObject
    """The sampling parameters as they were passed to litellm."""
    messages: tuple[MessageView, ...]
    """The messages; empty when one could not be read back."""
    tools: tuple[JsonObject, ...]
    """The tools that the call offered."""
    manifest: Manifest
    """The recorded manifest."""
    digest: Digest
    """The recorded digest of the canonical request."""
    body_digest: Digest | None
    """The recorded digest of the body that the model's server was sent; null where litellm wrote
    the body.
    """
    reference: ReproductionView
    """Reproduction by the references of the manifest; the source of `messages`."""
    assembly: ReproductionView
    """Reproduction by assembling the call again from the session's state at that time."""
    verified: bool
    """Whether neither way contradicts the recorded prompt."""
    fault: ReproductionFault | None
    """The first fault when it is not verified."""


class PromptAssemblyMeta(ResponseModel):
    """The contents of a prompt, and what was cut to fit.

    The keys are spelt as in the assembler that these applications used before, so that they need
    not change; the manifest has the same facts under this product's names.
    """

    order: tuple[str, ...]
    """The included layers, in order."""
    segments: dict[str, tuple[int, ...]] = Field(alias="segmentIdsByScope")
    """The included segments of each layer."""
    tokens: int = Field(alias="tokensEstimated")
    """The tokens of the whole prompt."""
    truncated: JsonObject | None = None
    """`droppedScopes`, and for a layer `x` `xTrimmed`, `xCompressed`, `xDroppedTiers`, `xDropped`
    (items of which nothing is left) and `xCued` (items of which only a cue is left); each is
    present only where it applies, and null where everything fitted.
    """


class PromptAssembly(ResponseModel):
    """A prompt and how it was assembled."""

    prompt: str
    """The text of the prompt; messages are separated by a blank line."""
    meta: PromptAssemblyMeta
    """The contents of the prompt."""


class AssembledPromptView(PromptView, PromptAssembly):
    """A prompt that was assembled without a session, and how."""
