"""How responses have the pictures, recordings and files that events name."""

from __future__ import annotations

from collections.abc import Iterable

from turnlog.contract.turn_payloads import MediaPartView
from turnlog.events.model.content_parts import MediaPart


def create_part_views(parts: Iterable[MediaPart]) -> tuple[MediaPartView, ...]:
    """Return parts as responses have them."""
    return tuple(MediaPartView.model_validate(each.model_dump()) for each in parts)
