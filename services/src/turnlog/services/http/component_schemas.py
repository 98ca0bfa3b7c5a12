"""References to schemas of the OpenAPI document, for bodies that FastAPI cannot describe itself.

These are bodies of lines, streams of server-sent events, and pages of stored events. OpenAPI has no
word for a body of many documents, so the schema of such a body is that of one line or one event.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel

from turnlog.services.api.published_events.event_definitions import build_event_definitions

COMPONENT_PREFIX: Final = "#/components/schemas/"

BINARY_CONTENT: Final[dict[str, Any]] = {"schema": {"type": "string", "format": "binary"}}
"""The content of a response that is a file."""


def refer_to_component(name: str) -> dict[str, Any]:
    """Return a content whose schema is a component."""
    return {"schema": {"$ref": f"{COMPONENT_PREFIX}{name}"}}


def describe_lines(discriminator: str, *kinds: type[BaseModel]) -> dict[str, Any]:
    """Return a content of lines, each of which is one of these models of the response model."""
    members = [{"$ref": f"{COMPONENT_PREFIX}{kind.__name__}"} for kind in kinds]
    return {"schema": {"oneOf": members, "discriminator": {"propertyName": discriminator}}}


def add_event_components(document: dict[str, Any]) -> None:
    """Add the definitions of events to the components of an OpenAPI document."""
    document["components"]["schemas"] |= build_event_definitions(COMPONENT_PREFIX)
