"""The last resort of a budget: tools that have no room beside the messages are not offered.

Definitions are complete or absent, and no step of a ladder shortens them. A prompt that all steps
leave too long is sent without some of them, as few as suffice: a model that lacks a tool can still
answer, and a turn that fails cannot. The manifest has each with its rule, and a step for it. What
the turn cannot do without stays: tools of the blueprint itself, those that the current step of a
plan names, one that the call must use, and those that the turn has called already.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from turnlog.events.model.manifest import AppliedTrimStep, BlobSource, PromptPart
from turnlog.projections.blueprint.schema.layer_specs import TOOLS_COMPONENT
from turnlog.projections.prompt.budget.budget_error import WHOLE_PROMPT, BudgetExceeded, BudgetScope
from turnlog.projections.prompt.request_dialect import TOOL_CHOICE
from turnlog.projections.prompt.sources.offered_tools import (
    LEAVE_OUT_TOOL_STEP,
    OfferedTool,
    get_tool_name,
)
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.next_call import find_current_step, list_tool_rounds
from turnlog.projections.session.state import SessionState

_SCOPES: Final = (WHOLE_PROMPT, BudgetScope(component=TOOLS_COMPONENT))
"""The limits that definitions of tools count under."""


@dataclass(frozen=True, slots=True)
class ToolRoom:
    """The tools that have room beside a prompt, and those that have none."""

    tools: tuple[OfferedTool, ...]
    parts: tuple[PromptPart, ...]
    """The parts beside the messages, those of the tools without room as well."""
    steps: tuple[AppliedTrimStep, ...]


def find_tool_room(
    tools: Sequence[OfferedTool],
    parts: Sequence[PromptPart],
    exceeded: BudgetExceeded,
    needed: Container[str],
    before: int,
) -> ToolRoom | None:
    """Leave out as few tools as make room for what exceeds a limit; None if that is impossible.

    `needed` names those that stay, and `before` is what the limit counts before any step.
    """
    if exceeded.of not in _SCOPES:
        return None
    may_go = [
        part
        for part in parts
        if part.role == "tools"
        and isinstance(part.source, BlobSource)
        and part.layer not in needed
        and part.tokens > 0
    ]
    left_out = {part.layer for part in _choose_largest(may_go, exceeded.tokens - exceeded.limit)}
    if not left_out:
        return None
    changed = tuple(_leave_out(part) if part.layer in left_out else part for part in parts)
    return ToolRoom(
        tools=tuple(each for each in tools if each.name not in left_out),
        parts=changed,
        steps=tuple(_record_steps(changed, left_out, exceeded.of, before)),
    )


def _choose_largest(parts: Sequence[PromptPart], excess: int) -> Iterator[PromptPart]:
    """Yield the fewest parts that have so many tokens together; none if all have fewer.

    The last one is the smallest that suffices. Of equal ones the later goes first.
    """
    if sum(part.tokens for part in parts) < excess:
        return
    left = [
        part for _, part in sorted(enumerate(parts), key=lambda each: (-each[1].tokens, -each[0]))
    ]
    while excess > 0:
        enough = [part for part in left if part.tokens >= excess]
        chosen = min(enough, key=lambda part: part.tokens) if enough else left[0]
        left.remove(chosen)
        excess -= chosen.tokens
        yield chosen


def _leave_out(part: PromptPart) -> PromptPart:
    update = {
        "role": None,
        "name": None,
        "characters": 0,
        "tokens": 0,
        "saved": part.tokens,
        "treatment": "dropped",
        "rule": LEAVE_OUT_TOOL_STEP,
    }
    return part.model_copy(update=update)


def _record_steps(
    parts: Iterable[PromptPart], left_out: Container[str], scope: BudgetScope, before: int
) -> Iterator[AppliedTrimStep]:
    for part in parts:
        if part.layer in left_out and part.rule == LEAVE_OUT_TOOL_STEP:
            after = before - part.saved
            yield AppliedTrimStep(
                step=LEAVE_OUT_TOOL_STEP,
                on=part.layer,
                component=scope.component,
                before=before,
                after=after,
            )
            before = after


def list_needed_tools(material: SessionMaterial, state: SessionState, kind: str) -> frozenset[str]:
    """Return the tools that a call of the open turn cannot do without, by all names they have."""
    call, opened = material.blueprint.calls[kind], state.open
    step = find_current_step(opened) if "all" not in call.tools else None
    called = {
        name
        for each in list_tool_rounds(opened)
        for use in each.tools
        for name in (use.tool, use.alias)
    }
    choice = call.parameters.get(TOOL_CHOICE)
    chosen = {get_tool_name(choice)} if isinstance(choice, dict) else set[str]()
    return frozenset(filter(None, {*(step.tools if step else ()), *called, *chosen}))
