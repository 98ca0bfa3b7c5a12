"""The files that one snapshot pins for each provider."""

from __future__ import annotations

from turnlog.events.content import compute_digest
from turnlog.events.model.prompt_events import PromptFile, PromptsSnapshotted, ProviderPrompts
from turnlog.projections.session.pinned_prompts import (
    ANY_PROVIDER,
    find_pinned_files,
    list_pinned_files,
)


def build_file(path: str) -> PromptFile:
    return PromptFile(digest=compute_digest(path), path=path)


PERSONA, OPENAI, GEMINI = (build_file(f"{name}.md") for name in ("persona", "openai", "gemini"))

SNAPSHOT = PromptsSnapshotted(
    provider="openai",
    layers={"persona": PERSONA, "provider": OPENAI},
    others={
        "gemini": ProviderPrompts(layers={"provider": GEMINI}),
        ANY_PROVIDER: ProviderPrompts(without=("provider",)),
    },
)


def test_a_snapshot_pins_the_files_of_every_provider() -> None:
    pinned = list_pinned_files(SNAPSHOT)
    assert find_pinned_files(pinned, "openai") == {"persona": PERSONA, "provider": OPENAI}
    assert find_pinned_files(pinned, "gemini") == {"persona": PERSONA, "provider": GEMINI}
    assert find_pinned_files(pinned, "anthropic") == {"persona": PERSONA}


def test_a_snapshot_of_an_earlier_version_pins_one_provider() -> None:
    pinned = list_pinned_files(PromptsSnapshotted(provider="openai", layers={"persona": PERSONA}))
    assert find_pinned_files(pinned, "openai") == {"persona": PERSONA}
    assert find_pinned_files(pinned, "gemini") is None
