"""The inputs of a turn: its own, and those of the parent's turn that a child's turn refers to.

An input that is handed on stands in the event that submitted the parent's turn. The child's turn
has a reference to it, and its text is a blob by the digest of that reference.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from turnlog.events.content import Digest
from turnlog.events.errors import Corrupt
from turnlog.events.model.turn_events import TurnQueued, TurnSubmitted


def collect_turn_inputs(
    submitted: TurnSubmitted | TurnQueued, blobs: Mapping[Digest, str]
) -> Mapping[str, JsonValue]:
    """Return all inputs of a turn; raises `Corrupt` if a text that it refers to is not there."""
    inputs: dict[str, JsonValue] = {**submitted.inputs}
    for handed in submitted.parent_inputs:
        if handed.digest not in blobs:
            raise Corrupt(f"blob {handed.digest}", f"input {handed.name} of the parent is missing")
        inputs[handed.name] = blobs[handed.digest]
    return inputs
