"""Tool disclosure: whether a prompt describes the tools in full or only names them, and why.

Prompts describe the tools in full in every call of a profile's first turn until one turn is
completed, and again when a caller requests it or memory is purged. Later prompts only name them. A
turn that is open at such a request may be past its first prompt, so the turn after it gets the full
description as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from turnlog.projections.session.frozen_copies import replace
from turnlog.projections.session.state import DisclosureReason, ToolDisclosure

if TYPE_CHECKING:
    from turnlog.events.content import Digest
    from turnlog.events.model.manifest import Manifest
    from turnlog.events.model.tool_events import ToolsSnapshotted
    from turnlog.projections.session.state import SessionState


ADAPT_RULE: Final = "adapt"
"""The first word of the rule of tools that are only named because a prompt adapts a case."""


def is_adapting(manifest: Manifest) -> bool:
    """Return whether a prompt only names the tools because it adapts a retrieved case."""
    rules = (part.rule for part in manifest.parts if part.is_included and part.rule)
    return any(rule.startswith(f"{ADAPT_RULE} ") for rule in rules)


def extend_disclosure(state: SessionState) -> dict[str, ToolDisclosure]:
    """Return the disclosures after the open turn is completed.

    A turn that only named the tools to adapt a case has not described them, so the next one does.
    """
    disclosure = state.telling.get(state.profile)
    if state.open is None or not state.open.adapted or disclosure is None:
        return state.telling
    if state.completed > disclosure.until:
        return state.telling
    longer = ToolDisclosure(state.completed + 1, disclosure.why)
    return {**state.telling, state.profile: longer}


def renew_disclosure(
    state: SessionState, reason: DisclosureReason, profiles: Iterable[str] | None = None
) -> SessionState:
    """Describe the tools of these profiles in full again; by default of all pinned profiles."""
    until = state.completed + (state.open is not None and reason != "first_turn")
    renewed = {name: ToolDisclosure(until, reason) for name in profiles or state.tools}
    return replace(state, telling={**state.telling, **renewed})


def find_disclosure_reason(state: SessionState) -> DisclosureReason | None:
    """Return why the tools of the current profile are described in full, or None."""
    disclosure = state.telling.get(state.profile)
    return disclosure.why if disclosure and state.completed <= disclosure.until else None


def list_tool_texts(pinned: ToolsSnapshotted) -> tuple[Digest, ...]:
    """Return the digests of all texts that prompts can show of a profile's tools."""
    texts = (pinned.full, pinned.names, pinned.prompts_text)
    return (*(pin.digest for pin in pinned.tools.values()), *filter(None, texts))
