"""Telling of tools: whether a prompt tells of them in full or only names them, and why.

They are told in full in every call of the first turn of a profile, until it is completed, and again
when somebody asks for it or memory was purged; from then on their names do. Of a turn that is open
when that happens nobody knows how far it has come, so the turn after it is told in full as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from turnlog.projections.session.replacing import replace

if TYPE_CHECKING:
    from turnlog.events.content import Digest
    from turnlog.events.tool import ToolsSnapshotted
    from turnlog.projections.session.state import SessionState

Why = Literal["first_turn", "asked", "purged"]
"""What tools are told in full for."""


@dataclass(frozen=True, slots=True)
class Telling:
    """How long the tools of a profile are told in full."""

    until: int
    """As long as no more turns than these were completed."""
    why: Why


def told_anew(state: SessionState, why: Why, profiles: Iterable[str] | None = None) -> SessionState:
    """Have the tools of these profiles told in full again, or of all that have any."""
    until = state.completed + (state.open is not None and why != "first_turn")
    anew = {name: Telling(until, why) for name in profiles or state.tools}
    return replace(state, telling={**state.telling, **anew})


def in_full(state: SessionState) -> Why | None:
    """Say what the tools of the session's profile are told in full for; none if they are not."""
    telling = state.telling.get(state.profile)
    return telling.why if telling and state.completed <= telling.until else None


def texts_of(pinned: ToolsSnapshotted) -> tuple[Digest, ...]:
    """Name the blobs of everything that prompts can say of a profile's tools."""
    texts = (pinned.full, pinned.names, pinned.prompts_text)
    return (*(pin.digest for pin in pinned.tools.values()), *filter(None, texts))
