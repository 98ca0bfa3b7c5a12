"""The responses about the service: its blueprints and their pinned versions, and its health."""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from turnlog.events.content import Digest
from turnlog.services.gateway.payloads.closed import ResponseModel
from turnlog.services.runtime.durability import DurabilityLevel


class BlueprintView(ResponseModel):
    """A usable blueprint."""

    blueprint: str
    """The name."""
    version: int
    """The version number set by its author."""
    digest: Digest
    """The digest of its structure."""
    summary: str
    """What it is for."""
    profiles: tuple[str, ...]
    """The profiles, the default one first."""


class FaultyBlueprintView(ResponseModel):
    """A blueprint that cannot be loaded."""

    blueprint: str
    """The name of its folder."""
    detail: str
    """The first fault and the number of faults."""


class BlueprintList(ResponseModel):
    """All blueprints."""

    blueprints: tuple[BlueprintView, ...]
    """The usable ones."""
    faulty: tuple[FaultyBlueprintView, ...]
    """Those that cannot be loaded."""


class BlueprintSchemas(BlueprintView):
    """A blueprint with the schemas of its values."""

    attributes: dict[str, JsonValue]
    """The JSON Schema of the attributes of a session."""
    inputs: dict[str, JsonValue]
    """The JSON Schema of the inputs of a turn."""


class ComponentHealth(ResponseModel):
    """The health of a component that the gateway depends on."""

    ready: bool
    """Whether it answers."""
    detail: str | None
    """What is wrong with it."""


class ReadinessView(ResponseModel):
    """Whether the gateway can work, and what its acknowledgements guarantee."""

    ready: bool
    """Whether every component answers."""
    durability: DurabilityLevel
    """What an acknowledgement guarantees: on disk, on several machines, or neither."""
    checked: bool
    """Whether the server confirmed the level, or only the configuration states it."""
    lag: int | None
    """The number of events that the read models lag behind the log; null when unknown."""
    parts: dict[str, ComponentHealth]
    """The health of each component by name."""


class LivenessView(ResponseModel):
    """The process runs."""

    alive: Literal[True] = True
    """Always true."""
