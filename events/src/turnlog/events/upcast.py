from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pydantic import JsonValue

EventData = dict[str, JsonValue]
Upcaster = Callable[[EventData], tuple[str, EventData]]
"""Takes the data of one version and returns the type and data of the next."""

UPCASTERS: Final[Mapping[str, Upcaster]] = {}
"""Upcaster by old wire type."""


def apply_upcasters(
    wire_type: str, data: EventData, upcasters: Mapping[str, Upcaster] = UPCASTERS
) -> tuple[str, EventData]:
    """Return type and data after all registered upcasters were applied."""
    while wire_type in upcasters:
        wire_type, data = upcasters[wire_type](data)
    return wire_type, data
