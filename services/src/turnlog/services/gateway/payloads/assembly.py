from __future__ import annotations

from pydantic import Field, JsonValue

from turnlog.services.gateway.payloads.closed import ResponseModel


class PromptAssemblyMeta(ResponseModel):
    """The contents of a prompt, and what was cut to fit.

    The keys are spelt as in the assembler that these applications used before, so that they need
    not change; the manifest has the same facts under this product's names.
    """

    order: tuple[str, ...]
    """The included layers, in order."""
    segments: dict[str, tuple[int, ...]] = Field(serialization_alias="segmentIdsByScope")
    """The included segments of each layer."""
    tokens: int = Field(serialization_alias="tokensEstimated")
    """The tokens of the whole prompt."""
    truncated: dict[str, JsonValue] | None = None
    """`droppedScopes`, and for a layer `x` `xTrimmed`, `xCompressed` and `xDroppedTiers`; each is
    present only where it applies, and null where everything fitted.
    """


class PromptAssembly(ResponseModel):
    """A prompt and how it was assembled."""

    prompt: str
    """The text of the prompt; messages are separated by a blank line."""
    meta: PromptAssemblyMeta
    """The contents of the prompt."""
