"""The responses about prompts: previews of a window, recorded prompts and their assembly."""

from __future__ import annotations

from pydantic import Field

from turnlog.events.content import Digest
from turnlog.events.model.call_events import AttemptCost
from turnlog.events.model.manifest import Manifest
from turnlog.projections.audit.verify.prompt_reproduction import ReproductionOutcome
from turnlog.projections.blueprint.storable_json import JsonObject
from turnlog.projections.prompt.chat_request import ChatMessage
from turnlog.services.api.payload_models import ResponseModel


class WindowView(ResponseModel):
    """What a call would see."""

    session: str
    """The session id."""
    sequence: int
    """The sequence of the state that was assembled."""
    call: str
    """The kind of call."""
    model: str
    """The model of the call."""
    messages: tuple[ChatMessage, ...]
    """The messages in order."""
    tools: tuple[JsonObject, ...]
    """The tools that the call offers."""
    manifest: Manifest
    """The source of each part."""
    cost: AttemptCost
    """The estimated cost of the prompt alone, without the reply."""


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
    messages: tuple[ChatMessage, ...]
    """The messages; empty when one could not be read back."""
    tools: tuple[JsonObject, ...]
    """The tools that the call offered."""
    manifest: Manifest
    """The recorded manifest."""
    digest: Digest
    """The recorded digest of the canonical request."""
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


class AssembledPromptView(PromptAssembly):
    """A prompt that was assembled without a session, and how."""

    call: str
    """The kind of call."""
    model: str
    """The model of the call."""
    messages: tuple[ChatMessage, ...]
    """The messages in order."""
    tools: tuple[JsonObject, ...]
    """The tools that the call offers."""
    manifest: Manifest
    """The source of each part, and what was left out."""
    cost: AttemptCost
    """The estimated cost of the prompt alone, without the reply."""
