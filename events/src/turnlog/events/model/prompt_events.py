"""Events of the prompt family: the prompt files that a session is pinned to."""

from __future__ import annotations

from typing import ClassVar

from turnlog.events.content import Digest
from turnlog.events.event_model import EventModel


class PromptFile(EventModel):
    """The text of one layer, stored as a blob."""

    digest: Digest
    """Digest of the blob, which is the text in UTF-8."""
    path: str
    """Path of the file, relative to the blueprint's folder."""


class ProviderPrompts(EventModel):
    """How the prompt files of another provider differ from those of the event."""

    layers: dict[str, PromptFile] = {}
    """Files that it has instead of them, or besides."""
    without: tuple[str, ...] = ()
    """Layers that have no file for it."""


class PromptsSnapshotted(EventModel):
    """The prompt files of a session are fixed; later edits affect new sessions only."""

    type: ClassVar[str] = "turnlog.prompts-snapshotted.v1"
    leaf: ClassVar[str] = "prompt"
    sentence: ClassVar[str] = "for {provider}: {layers|files|else:no prompt file}"

    provider: str
    """The provider they were resolved for."""
    layers: dict[str, PromptFile]
    """File by layer; a layer without a file is missing here."""
    others: dict[str, ProviderPrompts] = {}
    """The files of other providers, by provider; `*` is every provider without files of its own."""
