"""Lasting cuts: what a trim step left out of the earlier call of a kind stays left out.

A step without `to` drops just enough to fit. At the limit every call then begins its history at
another turn, so that no provider's cache can be read. A step with `to` drops further, and the
following calls repeat its cut until one exceeds the limit again.

The manifest of the earlier call says how far each cut reaches. It is the one that the cache prefix
is compared with, so that a prompt is assembled again from the log alone. A cut ends where there is
no earlier call, where the limit was raised since, and where the view shows older turns that the
earlier call left out for another reason than their age: those of another phase or of a summary that
was undone, or turns that were restored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, assert_never

from turnlog.events.model.manifest import HistorySource, Manifest
from turnlog.projections.blueprint.schema.budget_specs import (
    DropImages,
    DropOldestPairs,
    LastingAction,
)
from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.prompt.assembly_inputs import EarlierCall
from turnlog.projections.prompt.budget.budget_error import BudgetScope, find_step_scope
from turnlog.projections.prompt.history.excluded_turns import (
    DROP_TURNS_RULE,
    LIMIT_RULES,
    ExcludedTurns,
    merge_excluded,
)
from turnlog.projections.prompt.history.planned_history import PlannedHistory
from turnlog.projections.prompt.prompt_plan import (
    PromptPlan,
    leave_out_images_through,
    leave_out_oldest_images,
    leave_out_reasoning_through,
    update_view,
)

DROP_IMAGES_RULE: Final = "drop_images"
"""The rule of a picture that the step of this name left out."""

DROP_REASONING_STEP: Final = "drop_reasoning"
"""The name of the step that leaves out the reasoning before earlier replies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastingCut:
    """What a step left out of the earlier call of a kind, and must not come back yet."""

    through: int
    """The last turn from which something was left out."""
    call: str
    """The call that made the cut: the earlier one, or one before it."""
    manifest: Manifest
    """That of the earlier call."""


def find_lasting_cut(
    earlier: EarlierCall, step: str, on: str, scope: BudgetScope, limit: int
) -> LastingCut | None:
    """Return how far a step cut for this limit or a larger one; None if it made no lasting cut."""
    cuts = [
        LastingCut(
            through=taken.through, call=taken.since or earlier.call, manifest=earlier.manifest
        )
        for taken in earlier.manifest.steps
        if (taken.step, taken.on) == (step, on)
        and find_step_scope(taken) == scope
        and taken.through is not None
        and taken.limit is not None
        and limit <= taken.limit
    ]
    return max(cuts, key=lambda cut: cut.through, default=None)


def keep_cut(
    plan: PromptPlan, cut: LastingCut, on: str, action: LastingAction | None, counting: TokenCounter
) -> PromptPlan:
    """Return the plan with a cut of the earlier call; no action stands for the reasoning."""
    views = frozenset(_iterate_continued_views(plan, cut))
    match action:
        case None:
            return leave_out_reasoning_through(plan, cut.through, views)
        case DropImages():
            return leave_out_images_through(
                plan=plan, rule=DROP_IMAGES_RULE, counting=counting, turn=cut.through, views=views
            )
        case DropOldestPairs() if on in views:
            return update_view(plan, on, partial(_drop_turns_through, cut=cut, step=action))
        case DropOldestPairs():
            return plan
        case _ as never:
            assert_never(never)


def _iterate_continued_views(plan: PromptPlan, cut: LastingCut) -> Iterator[str]:
    """Yield the views whose turns up to the cut were in that call, or too old for it."""
    for slot in plan:
        if isinstance(slot, PlannedHistory):
            known = frozenset(_iterate_known_turns(cut.manifest, slot.view))
            old = [each for each in slot.exchanges if each.last_turn <= cut.through]
            if known.issuperset(each.last_turn for each in old):
                yield slot.view


def _iterate_known_turns(manifest: Manifest, view: str) -> Iterator[int]:
    """Yield the turns that a call included, or left out only for want of room."""
    for part in manifest.parts:
        is_known = part.is_included or part.rule in {DROP_TURNS_RULE, *LIMIT_RULES}
        if is_known and isinstance(part.source, HistorySource) and part.source.view == view:
            yield from range(part.source.first, part.source.last + 1)


def _drop_turns_through(
    slot: PlannedHistory, cut: LastingCut, step: DropOldestPairs
) -> PlannedHistory:
    older = slot.exchanges[: _count_droppable(slot, step)]
    return drop_turns(slot, sum(each.last_turn <= cut.through for each in older))


def _count_droppable(slot: PlannedHistory, step: DropOldestPairs) -> int:
    """Return how many turns a lasting cut may drop: never the last one, which fits."""
    return slot.count_older(max(1, step.keep_messages))


def drop_turns(slot: PlannedHistory, count: int) -> PlannedHistory:
    """Return a view without its oldest turns."""
    dropped = [
        ExcludedTurns(each.turn, each.last_turn, DROP_TURNS_RULE) for each in slot.exchanges[:count]
    ]
    left_out = merge_excluded((*slot.left_out, *dropped))
    return replace(slot, exchanges=slot.exchanges[count:], left_out=left_out)


def count_excess_turns(slot: PlannedHistory, most: int, over: int) -> int:
    """Return how many of the oldest turns save `over` tokens, up to `most`."""
    count = 0
    for exchange in slot.exchanges[:most]:
        if over <= 0:
            break
        over -= exchange.all_tokens
        count += 1
    return count


def deepen_cut(
    plan: PromptPlan, over: int, action: LastingAction, on: str, counting: TokenCounter
) -> PromptPlan:
    """Drop what saves `over` tokens more from a prompt that fits already."""
    match action:
        case DropOldestPairs():
            return update_view(
                plan,
                on,
                lambda slot: drop_turns(
                    slot, count_excess_turns(slot, _count_droppable(slot, action), over)
                ),
            )
        case DropImages():
            return leave_out_oldest_images(plan, DROP_IMAGES_RULE, counting, over)
        case _ as never:
            assert_never(never)


def complete_cut(
    whole: PromptPlan, shorter: PromptPlan, action: LastingAction, counting: TokenCounter
) -> PromptPlan:
    """Return a plan that leaves out all pictures of a turn, or none: a cut names turns."""
    through = find_last_cut_turn(whole, shorter)
    if through is None or not isinstance(action, DropImages):
        return shorter
    views = frozenset(slot.view for slot in whole if isinstance(slot, PlannedHistory))
    return leave_out_images_through(
        plan=shorter, rule=DROP_IMAGES_RULE, counting=counting, turn=through, views=views
    )


def find_last_cut_turn(before: PromptPlan, after: PromptPlan) -> int | None:
    """Return the last turn that a plan shows otherwise than the plan before; None if none."""
    turns = (
        turn
        for was, now in zip(before, after, strict=True)
        if isinstance(was, PlannedHistory) and isinstance(now, PlannedHistory) and was is not now
        for turn in _iterate_changed_turns(was, now)
    )
    return max(turns, default=None)


def _iterate_changed_turns(was: PlannedHistory, now: PlannedHistory) -> Iterator[int]:
    left = {each.turn: each for each in now.exchanges}
    return (each.last_turn for each in was.exchanges if each != left.get(each.turn))
