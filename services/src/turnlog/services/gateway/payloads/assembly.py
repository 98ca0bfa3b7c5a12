"""What is answered about how a prompt was put together, in the words its applications know.

The keys are spelt as the assembler spelt them whose prompts these blueprints make, so that an
application that asked it before need not learn new ones; the manifest says the same in ours.
"""

from __future__ import annotations

from pydantic import Field, JsonValue

from turnlog.services.gateway.payloads.closed import Answer


class AssemblyMeta(Answer):
    """What stands in a prompt, and what was cut so that it fits."""

    order: tuple[str, ...]
    """The layers that stand in it, in order."""
    segments: dict[str, tuple[int, ...]] = Field(serialization_alias="segmentIdsByScope")
    """Layer to the segments of it that stand."""
    tokens: int = Field(serialization_alias="tokensEstimated")
    """Tokens of the whole prompt."""
    truncated: dict[str, JsonValue] | None = None
    """`droppedScopes`, and of a layer `x` `xTrimmed`, `xCompressed` and `xDroppedTiers`; each is
    there only where it was done, and none of it where everything fitted."""


class Assembly(Answer):
    """A prompt, and how it came to be."""

    prompt: str
    """Its text; several messages are parted by a blank line."""
    meta: AssemblyMeta
    """What stands in it."""
