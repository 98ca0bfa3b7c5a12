from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from pydantic import JsonValue

from turnlog.projections.window.pieces import Block, TakeStep
from turnlog.projections.window.pinned import Installed
from turnlog.services.runtime.plugins import STEPS, registered, step_named
from turnlog.services.runtime.vocabularies import SHIPPED, TiktokenVocabulary


# Installed packages do not change while a process runs.
@cache
def installed() -> Installed:
    """Return the registered steps and the vocabularies, by name."""
    return Installed(
        {name: _step(name) for name in registered(STEPS)},
        {name: TiktokenVocabulary(name) for name in SHIPPED},
    )


def _step(name: str) -> TakeStep:
    def take(block: Block, told: Mapping[str, JsonValue]) -> Block:
        return step_named(name)(block, told)

    return take
