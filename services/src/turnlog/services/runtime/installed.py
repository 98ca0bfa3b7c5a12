from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from pydantic import JsonValue

from turnlog.projections.window.pieces import LayerBlock, ApplyRegisteredStep
from turnlog.projections.window.pinned import InstalledExtensions
from turnlog.services.runtime.plugins import STEP_GROUP, list_entry_points, load_step
from turnlog.services.runtime.vocabularies import SHIPPED_VOCABULARIES, TiktokenVocabulary


# Installed packages do not change while a process runs.
@cache
def collect_installed() -> InstalledExtensions:
    """Return the registered steps and the vocabularies, by name."""
    return InstalledExtensions(
        {name: _create_lazy_step(name) for name in list_entry_points(STEP_GROUP)},
        {name: TiktokenVocabulary(name) for name in SHIPPED_VOCABULARIES},
    )


def _create_lazy_step(name: str) -> ApplyRegisteredStep:
    def take(block: LayerBlock, told: Mapping[str, JsonValue]) -> LayerBlock:
        return load_step(name)(block, told)

    return take
