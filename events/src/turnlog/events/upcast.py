"""Upcasters: how the data of an older version becomes that of the version in use.

A new meaning is a new version with a function in here; golden bytes of every released version
are read through it in the tests, for ever. There is one release so far, so there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pydantic import JsonValue

Data = dict[str, JsonValue]
Upcaster = Callable[[Data], tuple[str, Data]]
"""Takes the data of one version, gives the type and data of the next."""

UPCASTERS: Final[Mapping[str, Upcaster]] = {}
"""Old wire type to the function that brings its data one version on."""


def upcast(
    wire_type: str, data: Data, upcasters: Mapping[str, Upcaster] = UPCASTERS
) -> tuple[str, Data]:
    """Bring data forward until no upcaster knows its type."""
    while wire_type in upcasters:
        wire_type, data = upcasters[wire_type](data)
    return wire_type, data
