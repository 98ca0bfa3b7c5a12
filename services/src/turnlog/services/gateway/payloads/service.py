"""What is answered about the service: the blueprints it has, and how it is."""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from turnlog.events.content import Digest
from turnlog.services.gateway.payloads.closed import Answer
from turnlog.services.runtime.durability import Level


class BlueprintView(Answer):
    """A blueprint there is."""

    blueprint: str
    """Its name."""
    version: int
    """Its author's version."""
    digest: Digest
    """Digest of its structure."""
    summary: str
    """What it is for."""
    profiles: tuple[str, ...]
    """Ways to run it, the default one first."""


class FaultyView(Answer):
    """A blueprint that cannot be used."""

    blueprint: str
    """The name of its folder."""
    detail: str
    """What is wrong with it, and how many things."""


class BlueprintList(Answer):
    """All blueprints."""

    blueprints: tuple[BlueprintView, ...]
    """Those that can be used."""
    faulty: tuple[FaultyView, ...]
    """Those that cannot."""


class BlueprintForms(BlueprintView):
    """A blueprint, and what it takes."""

    attributes: dict[str, JsonValue]
    """JSON Schema of what is given at opening."""
    inputs: dict[str, JsonValue]
    """JSON Schema of what is given with a turn, beside its text."""


class PartHealth(Answer):
    """A part the gateway depends on."""

    ready: bool
    """Whether it answers."""
    detail: str | None
    """What is wrong with it."""


class Readiness(Answer):
    """Whether the gateway can do its work, and what its word is worth."""

    ready: bool
    """Whether every part answers."""
    durability: Level
    """What an acknowledgement means: on disk, on several machines, or neither."""
    checked: bool
    """Whether the server was asked for it, or its operator taken at their word."""
    lag: int | None
    """Events on the log that the read models lack; null where that cannot be told."""
    parts: dict[str, PartHealth]
    """Each part by name."""


class Alive(Answer):
    """The process runs."""

    alive: Literal[True] = True
    """It does."""
