"""What packages register: sources of layers, and checks of replies, under entry points.

A name that nobody registers is refused before a session opens by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Final, Protocol, cast

from pydantic import JsonValue

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.faults import instead_of

SOURCES: Final = "turnlog.sources"
CHECKS: Final = "turnlog.checks"

Check = Callable[[str, JsonValue], str | None]
"""Given a text and what the rule names, says what is wrong with it; none when nothing is."""


class Source(Protocol):
    """Gives a layer's text for a session, when it makes its first call."""

    async def __call__(self, session: str, attributes: Mapping[str, JsonValue]) -> str:
        """Give the text; empty where there is nothing to say."""
        ...


def check_named(name: str) -> Check:
    """Load a check; raises `Refused` when no package registers it."""
    return cast("Check", _loaded(CHECKS, name))


def source_named(name: str) -> Source:
    """Load a source; raises `Refused` when no package registers it."""
    return cast("Source", _loaded(SOURCES, name))


def _loaded(group: str, name: str) -> object:
    found = {entry.name: entry for entry in metadata.entry_points(group=group)}
    if name not in found:
        kind = group.removeprefix("turnlog.").removesuffix("s")
        detail = f"no package registers a {kind} {name[:80]!r}"
        raise Refused(f"unknown-{kind}", detail, field=kind, fix=instead_of(name, found))
    return found[name].load()
