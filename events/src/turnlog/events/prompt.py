"""Events of the prompt family: what prompts a session is pinned to."""

from __future__ import annotations

from typing import ClassVar

from turnlog.events.content import Digest
from turnlog.events.fact import Fact


class PromptFile(Fact):
    """The text one layer was given, as a blob."""

    digest: Digest
    """Digest of the blob, which is the text in UTF-8."""
    path: str
    """Where it was found, relative to the blueprint's folder."""


class PromptsSnapshotted(Fact):
    """The prompt files of a session are fixed; later edits reach new sessions only."""

    type: ClassVar[str] = "turnlog.prompts-snapshotted.v1"
    leaf: ClassVar[str] = "prompt"

    provider: str
    """The provider they were resolved for."""
    layers: dict[str, PromptFile]
    """Layer to file; a layer whose file was found nowhere is not in it."""
