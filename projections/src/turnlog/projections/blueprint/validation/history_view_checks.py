"""History view checks: `like` references, summaries, and the steps that request summaries."""

from __future__ import annotations

from collections.abc import Iterator

from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.budget_specs import BudgetSpec, Ladder, SummariseHistory
from turnlog.projections.blueprint.schema.call_specs import CallSpec, HistoryMessageSlot
from turnlog.projections.blueprint.schema.history_specs import HistoryViewSpec
from turnlog.projections.blueprint.schema.layer_specs import HISTORY_COMPONENT
from turnlog.projections.blueprint.schema.strict_model import Name
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFinding,
    BlueprintFindings,
    DocumentPath,
    check_known_name,
    suggest_word,
)


def check_history_views(blueprint: Blueprint) -> BlueprintFindings:
    """Check the history views, and how calls and budgets use them."""
    own = [name for name, view in blueprint.history.items() if view.like is None]
    for name, written in blueprint.history.items():
        if written.like in {None, *own}:
            yield from _check_view(blueprint, name, blueprint.resolve_view(name))
        else:
            what = f"there is no view of its own `{written.like}`"
            yield BlueprintFinding(
                ("history", name, "like"), what, suggest_word(written.like or "", own)
            )
    summary_calls = {view.summary.call for view in blueprint.history.values() if view.summary}
    for name, call in blueprint.calls.items():
        if name not in summary_calls:
            yield from _check_selected_turns(blueprint, name, call)
    for name, budget in blueprint.budget.items():
        yield from _check_summarise_steps(blueprint, ("budget", name), budget)


def _check_view(blueprint: Blueprint, name: Name, view: HistoryViewSpec) -> BlueprintFindings:
    path = ("history", name)
    for word in ("max_turns", "last_messages"):
        if view.all and getattr(view, word) is not None:
            what = f"`{name}` is the whole history, so it has no `{word}`"
            yield BlueprintFinding((*path, word), what, "leave out one of the two")
    if view.summary and view.memory:
        what = "what a memory policy forgets must not be told by a summary"
        yield BlueprintFinding(path, what, "leave out one of `summary` and `memory`")
    own = blueprint.history[name].summary
    if own is None:
        return
    call, call_path = own.call, (*path, "summary", "call")
    yield from check_known_name(call_path, "call", call, blueprint.calls)
    if call in blueprint.calls and not [*_find_selected_slots(blueprint, blueprint.calls[call])]:
        what = f"the call `{call}` shows no turns to sum up"
        yield BlueprintFinding(call_path, what, "let it list a view that is `of: selected`")


def _check_selected_turns(blueprint: Blueprint, name: Name, call: CallSpec) -> BlueprintFindings:
    for place in _find_selected_slots(blueprint, call):
        what = "no view is summed up by this call, so nothing is selected for it"
        fix = "name another view, or this call in a `summary`"
        yield BlueprintFinding(("calls", name, "messages", place, "history"), what, fix)


def _find_selected_slots(blueprint: Blueprint, call: CallSpec) -> Iterator[int]:
    """Yield the indices of the messages that include the turns to be summarised."""
    for place, slot in enumerate(call.messages):
        view = blueprint.history.get(slot.history) if isinstance(slot, HistoryMessageSlot) else None
        if view is not None and view.of == "selected":
            yield place


def _check_summarise_steps(
    blueprint: Blueprint, path: DocumentPath, budget: BudgetSpec
) -> BlueprintFindings:
    """Find steps that request a summary where none can be made."""
    history = budget.components.get(HISTORY_COMPONENT)
    ladders: list[tuple[DocumentPath, Ladder]] = [((*path, "ladder"), budget.ladder)]
    for word, limits in (("sections", budget.sections), ("components", budget.components)):
        ladders += [((*path, word, name, "ladder"), each.ladder) for name, each in limits.items()]
    for ladder_path, ladder in ladders:
        for step_index, step in enumerate(ladder):
            if not isinstance(step.action, SummariseHistory):
                continue
            at = (*ladder_path, step_index, "summarise")
            if history is None or ladder is not history.ladder:
                what = f"a summary is asked for by the ladder of component `{HISTORY_COMPONENT}`"
                yield BlueprintFinding(at, what, "put it there")
            elif not _has_summary(blueprint, step.action.history):
                what = "no view that it means is ever summed up"
                yield BlueprintFinding(at, what, "give the view a `summary`")


def _has_summary(blueprint: Blueprint, name: Name | None) -> bool:
    views = [name] if name in blueprint.history else list(blueprint.history)
    return any(blueprint.resolve_view(each).summary for each in views)
