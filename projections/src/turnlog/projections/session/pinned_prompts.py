"""The prompt files that a session is pinned to, by provider.

The first call pins the files of every provider, so that a later call with another model includes
what was there at the first. Logs of earlier versions pin each provider at its own first call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from turnlog.events.model.prompt_events import PromptFile, PromptsSnapshotted

ANY_PROVIDER: Final = "*"
"""Stands for every provider without prompt files of its own."""

PinnedFiles = dict[str, PromptFile]
"""Prompt files by layer."""


def list_pinned_files(event: PromptsSnapshotted) -> dict[str, PinnedFiles]:
    """Return the files that an event pins, by provider."""
    found = {event.provider: event.layers}
    for provider, other in event.others.items():
        files = {**event.layers, **other.layers}
        found[provider] = {name: files[name] for name in files if name not in other.without}
    return found


def find_pinned_files(pinned: Mapping[str, PinnedFiles], provider: str) -> PinnedFiles | None:
    """Return the files pinned for a provider; None if its first call pins them."""
    return pinned.get(provider, pinned.get(ANY_PROVIDER))
